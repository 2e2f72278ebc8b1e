// serve: the model over HTTP, and what to type next.

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_setup.h"
#include "cli/progress_bar.h"
#include "server/serve.h"

namespace drafthorse {
namespace {

void print_hints(const std::string& url, const LoadedModel& model, const Options& options) {
  std::string header = options.server.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  fmt::print("\n{} answers on {}. Try:\n\n", model.id, url);
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
  Result<LoadOptions> located = locate_model(options);
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
    if (!options.quiet) print_hints(url, model, options);
  };
  return serve(options.server, *located, events);
}

}  // namespace drafthorse
