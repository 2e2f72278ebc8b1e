// GGUF metadata of Qwen's hybrid models and mixtures (qwen35, qwen35moe, qwen3next, qwen3moe).

#include <algorithm>

#include <fmt/format.h>

#include "network/dense_config.h"
#include "network/hybrid_config.h"
#include "weights/gguf.h"

namespace drafthorse {
namespace {

// Layer i is linear attention unless i + 1 is a multiple of the interval.
void read_linear_layers(GgufReader& reader, HybridConfig& config) {
  const int interval = reader.size("full_attention_interval").value_or(4);
  if (interval < 1) reader.fail(ErrorKind::corrupt, "full_attention_interval", "expected at least 1, found 0");
  if (!reader.status()) return;
  for (int i = 0; i < config.dense.layers; ++i) config.linear.push_back((i + 1) % interval != 0);
}

void read_delta(GgufReader& reader, HybridConfig& config) {
  DeltaSizes& delta = config.delta;
  const bool used = std::find(config.linear.begin(), config.linear.end(), true) != config.linear.end();
  const auto size = [&](const char* key) { return used ? reader.required_size(key) : reader.size(key).value_or(0); };
  delta.key_heads = size("ssm.group_count");
  delta.value_heads = size("ssm.time_step_rank");
  delta.key_dim = size("ssm.state_size");
  const int inner = size("ssm.inner_size");
  delta.kernel = size("ssm.conv_kernel");
  if (!reader.status() || !used) return;
  if (delta.value_heads < 1 || inner % delta.value_heads != 0) {
    reader.fail(ErrorKind::corrupt, "ssm.inner_size",
                fmt::format("expected a multiple of the {} value heads, found {}", delta.value_heads, inner));
    return;
  }
  delta.value_dim = inner / delta.value_heads;
}

// Without the key as many as there are tokens; 0 without either.
int read_vocab(GgufReader& reader) {
  const auto* tokens = find_value<std::vector<std::string>>(reader.checkpoint().metadata(), "tokenizer.ggml.tokens");
  const auto said = reader.size("vocab_size");
  return said ? *said : tokens && tokens->size() < INT32_MAX ? static_cast<int>(tokens->size()) : 0;
}

void read_moe(GgufReader& reader, HybridConfig& config, const HybridRules& rules) {
  MoeSizes& moe = config.moe;
  moe.experts = reader.size("expert_count").value_or(0);
  if (moe.experts > 0) {
    moe.top_k = reader.required_size("expert_used_count");
    moe.intermediate = reader.required_size("expert_feed_forward_length");
    // Without the key the tensors say whether there is a shared expert, and how large it is.
    const TensorView* shared = reader.checkpoint().find("blk.0.ffn_gate_shexp.weight");
    const int64_t rows = shared && rules.hybrid ? std::clamp<int64_t>(shared->rows(), 0, INT32_MAX / 2) : 0;
    moe.shared = reader.size("expert_shared_feed_forward_length").value_or(static_cast<int>(rows));
  } else {
    for (const char* key : {"expert_used_count", "expert_feed_forward_length", "expert_shared_feed_forward_length"}) {
      (void)reader.size(key);
    }
  }
  moe.normalised = reader.boolean("expert_weights_norm").value_or(rules.normalised_top_k);
  if (const auto scale = reader.number("expert_weights_scale"); scale && *scale != 0 && *scale != 1) {
    reader.fail(ErrorKind::unsupported, "expert_weights_scale", "only 1 is supported in this family");
  }
  if (const int gating = reader.size("expert_gating_func").value_or(1); gating > 1) {
    reader.fail(ErrorKind::unsupported, "expert_gating_func", "only softmax (1) is supported in this family");
  }
  if (reader.status().ok()) config.mixture.assign(static_cast<size_t>(config.dense.layers), moe.experts > 0);
}

}  // namespace

Result<HybridConfig> read_hybrid_gguf_config(const Checkpoint& checkpoint, const std::string& architecture,
                                             const HybridRules& rules) {
  GgufReader reader(checkpoint, architecture, true);
  HybridConfig config;
  config.dense = read_gguf_common(reader, true);
  config.dense.family = rules.family;
  config.dense.vocab = read_vocab(reader);
  config.dense.qk_norms = true;
  config.dense.qkv_bias = config.dense.output_bias = rules.hybrid ? Bias::none : Bias::if_present;
  config.gated_attention = rules.gated;
  config.hybrid = rules.hybrid;
  if (rules.hybrid) {
    // The drafting block is counted among the blocks.
    config.heads_in_file = reader.size("nextn_predict_layers").value_or(0);
    if (config.heads_in_file > 1) {
      reader.fail(ErrorKind::unsupported, "nextn_predict_layers",
                  fmt::format("{} drafting blocks are not implemented; supported is 1", config.heads_in_file));
    }
    config.dense.layers -= std::min(config.heads_in_file, config.dense.layers);
    if (!config.dense.windows.empty()) {
      reader.fail(ErrorKind::unsupported, "attention.sliding_window", "this family has no window");
    }
    (void)reader.value("rope.dimension_sections");  // a text's three position ids are equal
    read_linear_layers(reader, config);
    read_delta(reader, config);
  } else if (reader.status().ok()) {
    config.linear.assign(static_cast<size_t>(config.dense.layers), false);
  }
  read_moe(reader, config, rules);
  if (Status status = reader.finish(); !status) return status.error();
  if (Status status = check_hybrid_config(checkpoint, config); !status) return status.error();
  return config;
}

}  // namespace drafthorse
