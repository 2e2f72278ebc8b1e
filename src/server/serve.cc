#include "server/serve.h"

#include <cstdlib>

#include <spdlog/spdlog.h>

#include "api/served_model.h"
#include "server/server.h"

namespace drafthorse {
namespace {

std::shared_ptr<ServedModel> served(const std::shared_ptr<LoadedModel>& model) {
  auto out = std::make_shared<ServedModel>();
  out->id = model->id;
  out->aliases = model->aliases;
  out->created = model->created;
  out->context = model->engine->model().context();
  out->vocab = model->engine->model().vocab();
  out->description = model->engine->model().description();
  out->start = [model](const CompletionRequest& request, EventHandler handler) {
    return start_completion(model, request, std::move(handler));
  };
  out->prepare = [model](CompletionRequest request) { return prepare(*model, std::move(request)); };
  out->engine_stats = [model] { return model->engine->stats(); };
  out->memory = [model] { return model->engine->memory(); };
  return out;
}

// Headers, shapes and the family are checked in milliseconds: what cannot run is refused before the port is taken.
Status check_model(const LoadOptions& options) {
  auto checkpoint = Checkpoint::open(options.path);
  if (!checkpoint) return checkpoint.error();
  auto network = read_network(*checkpoint, {.mtp = options.mtp});
  if (!network) return network.error();
  return {};
}

}  // namespace

Status serve(const ServerOptions& options, const LoadOptions& load_options, const ServeEvents& events) {
  if (Status status = check_model(load_options); !status) return status;
  std::shared_ptr<LoadedModel> loaded;  // ends after the server and all its answers
  ServerSetup setup;
  setup.catch_signals = true;
  setup.loader = [&](const Progress& progress) -> Result<std::shared_ptr<ServedModel>> {
    auto model = load(load_options, [&](uint64_t done, uint64_t total) {
      progress(done, total);
      if (events.progress) events.progress(done, total);
    });
    if (!model) return model.error();
    loaded = *model;
    return served(loaded);
  };
  setup.listening = events.listening;
  setup.ready = [&] {
    if (events.ready) events.ready(*loaded);
  };
  setup.abandon_loading = [] {
    spdlog::info("stopped while the model was loading");
    spdlog::shutdown();
    std::_Exit(EXIT_SUCCESS);
  };
  auto server = Server::start(options, std::move(setup));
  if (!server) return server.error();
  return (*server)->wait();
}

}  // namespace drafthorse
