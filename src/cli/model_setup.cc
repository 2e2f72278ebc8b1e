#include "cli/model_setup.h"

#include <unistd.h>

#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "cli/interrupt.h"
#include "cli/model_name.h"
#include "cli/progress_bar.h"

namespace drafthorse {

bool stderr_is_terminal() { return ::isatty(2) == 1; }

SourceOptions source_options(const Options& options) {
  SourceOptions source;
  source.environment = options.environment;
  source.models = options.models_dir;
  source.terminal = stderr_is_terminal();
  source.cancelled = [] { return interrupted(); };
  return source;
}

LoadOptions load_options(const Options& options, const std::filesystem::path& path) {
  LoadOptions load;
  load.path = path.string();
  load.mtp = options.mtp;
  load.id = options.model_id;
  load.backend.backend = options.backend;
  load.backend.threads = options.threads;
  load.backend.context = options.context;
  load.backend.isa = options.isa;
  load.engine.draft = options.draft == "off" ? "off" : "auto";
  load.engine.policy_cache = (options.models_dir.parent_path() / "row_costs.tsv").string();
  if (options.parallel > 0) load.engine.max_running = options.parallel;
  if (options.queue >= 0) load.engine.max_queue = options.queue;
  if (options.prefill_chunk > 0) load.engine.prefill_chunk = options.prefill_chunk;
  load.memory = options.memory;
  load.temperature = options.temperature;
  load.top_p = options.top_p;
  load.min_p = options.min_p;
  load.top_k = options.top_k;
  load.repetition_penalty = options.repetition_penalty;
  load.presence_penalty = options.presence_penalty;
  load.frequency_penalty = options.frequency_penalty;
  return load;
}

SamplingFields sampling_fields(const Options& options) {
  SamplingFields fields;
  fields.temperature = options.temperature;
  fields.top_p = options.top_p;
  fields.min_p = options.min_p;
  fields.top_k = options.top_k;
  fields.repetition_penalty = options.repetition_penalty;
  fields.presence_penalty = options.presence_penalty;
  fields.frequency_penalty = options.frequency_penalty;
  fields.seed = options.seed;
  return fields;
}

Result<LoadOptions> locate_model(const Options& options) {
  Result<std::filesystem::path> path = resolve_model(options.model, source_options(options));
  if (!path) {
    Error error = path.error();
    if (options.model.empty() && error.kind != ErrorKind::cancelled)
      error.message += fmt::format("; -m {} is the small model that comes with Drafthorse", demo_model().alias);
    return error;
  }
  return load_options(options, *path);
}

Result<std::shared_ptr<LoadedModel>> open_model(const Options& options) {
  Result<LoadOptions> located = locate_model(options);
  if (!located) return located.error();
  if (!stderr_is_terminal()) return load(*located);
  ProgressBar bar("loading", true);
  auto result = load(*located, [&](uint64_t done, uint64_t total) { bar.update(done, total); });
  bar.clear();
  return result;
}

void close_model(std::shared_ptr<LoadedModel> model) {
  for (int i = 0; i < 1000 && model.use_count() > 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace drafthorse
