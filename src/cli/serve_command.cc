// serve: the model over HTTP, and what to type next.

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_name.h"
#include "cli/model_setup.h"
#include "cli/progress_bar.h"
#include "server/serve.h"

namespace drafthorse {
namespace {

constexpr std::string_view kDemoAbility =
    "it repeats and edits Python functions, converts JSON, CSV and tables, does small sums and tells short stories; it "
    "is no assistant";

// The model to serve. Where nobody named one and the default model can be had from no source, the demo model is served
// instead, which is said.
Result<LoadOptions> choose_model(const Options& options) {
  if (!options.model.empty()) return locate_model(options);
  SourceOptions source = source_options(options);
  Result<std::filesystem::path> path = resolve_model("", source);
  if (path) return load_options(options, *path);
  std::optional<std::filesystem::path> demo = find_on_disk(std::string(demo_model().alias), source);
  if (!demo || path.error().kind == ErrorKind::cancelled) return path.error();
  fmt::print(stderr, "the default model {} cannot be had: {}\n", default_model().alias, path.error().message);
  fmt::print(stderr,
             "starting the built-in demo model {} instead: {}. For a real model start again with a network, or give "
             "--model FILE.gguf\n",
             demo_model().file, kDemoAbility);
  return load_options(options, *demo);
}

void print_hints(const std::string& url, const LoadedModel& model, const std::string& path, const Options& options) {
  std::string header = options.server.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  bool demo = std::filesystem::path(path).filename() == demo_model().file;
  fmt::print("\n{} answers on {}.{} Try:\n\n", model.id, url,
             demo ? fmt::format(" This is the built-in demo model: {}.", kDemoAbility) : "");
  if (model.chat_template) {
    fmt::print(
        "  curl {}/v1/chat/completions{} -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello!\"}}], \"max_tokens\": 100}}'\n",
        url, header);
  } else {
    fmt::print("  curl {}/v1/completions{} -d '{{\"prompt\": \"Once upon a time\", \"max_tokens\": 50}}'\n", url,
               header);
  }
  fmt::print("  ./run run          a chat in this terminal\n");
  fmt::print("  ./run --help       everything else\n\nCtrl-C stops the server.\n");
  std::fflush(stdout);
}

}  // namespace

Status serve_command(const Options& options) {
  watch_interrupts();
  Result<LoadOptions> located = choose_model(options);
  if (!located) return located.error();
  std::string url;
  ProgressBar bar("loading", true);
  bool terminal = stderr_is_terminal();
  ServeEvents events;
  events.listening = [&](const std::string& bound) {
    url = bound;
    if (!options.quiet) fmt::print("listening on {}, loading {}\n", url, located->path);
    std::fflush(stdout);
  };
  events.progress = [&](uint64_t done, uint64_t total) {
    if (terminal) bar.update(done, total);
  };
  events.ready = [&](const LoadedModel& model) {
    bar.clear();
    if (!options.quiet) print_hints(url, model, located->path, options);
  };
  return serve(options.server, *located, events);
}

}  // namespace drafthorse
