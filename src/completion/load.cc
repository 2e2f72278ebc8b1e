// A checkpoint on disk becomes a served model.

#include <chrono>

#include <fmt/format.h>

#include "completion/completion.h"
#include "completion/look_alikes.h"
#include "completion/memory_budget.h"
#include "completion/model_settings.h"
#include "core/keyed_file.h"
#include "draft/mtp_probe.h"

namespace drafthorse {
namespace {

// File name without ".gguf", or folder name.
std::string model_id(const std::filesystem::path& path) {
  const auto clean = path.has_filename() ? path : path.parent_path();
  return clean.extension() == ".gguf" ? clean.stem().string() : clean.filename().string();
}

// Ordinary text that heads are tried on.
constexpr std::string_view kProbeText =
    "The harbour lies open to the west. In the morning the fishing boats come back, and the gulls follow them until the "
    "nets are empty. A short program can count the boats:\n\n```python\ndef count_boats(names):\n    total = 0\n"
    "    for name in names:\n        if name:\n            total += 1\n    return total\n```\n\nIt takes a list of names "
    "and returns how many of them are not empty. The answer for an empty list is zero.";

std::string input_text(const HeadInput& input) {
  return fmt::format("{} {}", input.hidden == Hidden::before_norm ? "before_norm" : "after_norm",
                     input.embedding_first ? "embedding_first" : "hidden_first");
}

// False, and nothing changed, for any other text.
bool read_input(std::string_view text, HeadInput& input) {
  for (Hidden hidden : {Hidden::after_norm, Hidden::before_norm}) {
    for (bool first : {true, false}) {
      const HeadInput candidate{hidden, first};
      if (text != input_text(candidate)) continue;
      input = candidate;
      return true;
    }
  }
  return false;
}

// Gives the engine the network's drafting head. How it wants its input is tried where the checkpoint does not say, and
// remembered beside the row costs.
Status add_head(Model& model, const Network& network, const Tokenizer& tokenizer, EngineOptions& engine) {
  HeadInput input{network.mtp_hidden, network.mtp->joined_input->embedding_first};
  const std::string key =
      fmt::format("head input | {} | {}", network.checkpoint->identity(), network.mtp->checkpoint->identity());
  if (!network.mtp_hidden_known && !read_input(read_keyed(engine.policy_cache, key), input)) {
    const std::vector<int32_t> text = tokenizer.encode(kProbeText);
    Result<ProbedHead> probed = probe_head(model, network, text);
    if (!probed) return probed.error().with_context("the drafting head");
    input = probed->input;
    (void)write_keyed(engine.policy_cache, key, input_text(input));
  }
  Network head = *network.mtp;
  head.joined_input->embedding_first = input.embedding_first;
  Result<std::unique_ptr<Model>> loaded = model.load_companion(head);
  if (!loaded) return loaded.error().with_context("the drafting head");
  engine.head = std::move(*loaded);
  engine.head_input = input.hidden;
  return {};
}

}  // namespace

Result<std::shared_ptr<LoadedModel>> load(const LoadOptions& options, const Progress& progress) {
  auto checkpoint = Checkpoint::open(options.path);
  if (!checkpoint) return checkpoint.error();
  auto network = read_network(*checkpoint, {.mtp = options.mtp});
  if (!network) return network.error();

  auto model = std::make_shared<LoadedModel>();
  model->id = options.id.empty() ? model_id((*checkpoint)->path()) : options.id;
  auto tokenizer = load_tokenizer(**checkpoint);
  if (!tokenizer) return tokenizer.error();
  model->tokenizer = std::move(*tokenizer);
  auto templates = load_chat_templates(**checkpoint);
  if (!templates) return templates.error();
  model->chat_template = std::move(templates->chat);
  model->tool_template = std::move(templates->tools);
  model->look_alikes = std::make_shared<LookAlikes>(*model->tokenizer);
  auto stop_tokens = load_stop_tokens(**checkpoint, *model->tokenizer);
  if (!stop_tokens) return stop_tokens.error();
  model->stop_tokens = std::move(*stop_tokens);
  auto sampling = load_sampling(**checkpoint, *network, options);
  if (!sampling) return sampling.error();
  model->default_sampling = *sampling;

  auto plan = plan_memory(*network, options.memory, options.backend.context, options.backend.kv_bytes);
  if (!plan) return plan.error();
  BackendOptions backend = options.backend;
  backend.kv_bytes = plan->kv;
  backend.context = plan->context;
  auto loaded = load_model(*network, backend, progress);
  if (!loaded) return loaded.error();

  EngineOptions engine = options.engine;
  if (network->mtp && engine.draft != "off") {
    const Status head = add_head(**loaded, *network, *model->tokenizer, engine);
    if (!head) return head.error();
  }
  if (engine.policy_key.empty()) engine.policy_key = (*checkpoint)->identity();
  model->network = std::move(*network);
  model->engine = std::make_unique<Engine>(std::move(*loaded), std::move(engine));
  model->created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return model;
}

}  // namespace drafthorse
