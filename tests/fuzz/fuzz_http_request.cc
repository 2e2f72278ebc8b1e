// A request's bytes through HTTP parsing, access checks, routing, decoding and a model that answers at once: every
// request that parses gets exactly one complete answer.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <spdlog/spdlog.h>

#include "api/served_model.h"
#include "server/http.h"
#include "server/options.h"
#include "server/service.h"

namespace drafthorse {
namespace {

class Collector final : public Responder {
 public:
  void send(HttpResponse response) override {
    if (begun || ended || response.status < 200 || response.status > 599) std::abort();
    ended = true;
  }
  void begin(StreamHead) override {
    if (begun || ended) std::abort();
    begun = true;
  }
  bool write(std::string_view) override {
    if (!begun || ended) std::abort();
    return true;
  }
  void end() override {
    if (!begun || ended) std::abort();
    ended = true;
  }
  Gone gone() const override { return Gone::no; }
  void on_gone(std::function<void()>) override {}

  bool begun = false, ended = false;
};

class Done final : public Completion {
  void cancel() override {}
  int prompt_tokens() const override { return 1; }
};

std::shared_ptr<ServedModel> instant_model() {
  auto model = std::make_shared<ServedModel>();
  model->id = "tiny";
  model->vocab = 100;
  model->start = [](const CompletionRequest&, EventHandler handler) -> Result<std::unique_ptr<Completion>> {
    handler(TextDelta{"text", {}, {}});
    Finish finish;
    finish.reason = "stop";
    handler(finish);
    return std::unique_ptr<Completion>(std::make_unique<Done>());
  };
  return model;
}

}  // namespace
}  // namespace drafthorse

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace drafthorse;
  static const ServerOptions options = [] {
    ServerOptions o;
    o.worker_threads = 0;  // everything happens in handle
    o.max_body = 1 << 20;
    spdlog::set_level(spdlog::level::off);
    return o;
  }();
  auto request = parse_http_request({reinterpret_cast<const char*>(data), size}, options);
  if (!request) return 0;
  Service service(options);
  service.set_ready(instant_model());
  const HttpHandlers handlers = service.handlers();
  if (handlers.check(*request)) return 0;
  auto collector = std::make_shared<Collector>();
  handlers.handle(*std::move(request), collector);
  if (!collector->ended) std::abort();
  return 0;
}
