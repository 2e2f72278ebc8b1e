#include <cmath>

#include <fmt/format.h>

#include "network/dense_config.h"

namespace drafthorse {
namespace {

double positive(GgufReader& reader, std::string_view key, double fallback) {
  const double value = reader.number(key).value_or(fallback);
  if (!(value > 0)) reader.fail(ErrorKind::corrupt, key, fmt::format("expected a positive number, found {}", value));
  return value;
}

RopeScaling read_scaling(GgufReader& reader, int context_length) {
  RopeScaling scaling;
  const std::string type = reader.text("rope.scaling.type", "none");
  // A factor of 0 means "none given" in these files.
  double factor = reader.number("rope.scaling.factor").value_or(0);
  if (factor == 0) factor = reader.number("rope.scale_linear").value_or(0);
  const bool has_factor = factor != 0 && factor != 1;
  scaling.factor = factor == 0 ? 1 : factor;
  if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::yarn;
    scaling.original_context = positive(reader, "rope.scaling.original_context_length", context_length);
    scaling.beta_fast = positive(reader, "rope.scaling.yarn_beta_fast", 32);
    scaling.beta_slow = positive(reader, "rope.scaling.yarn_beta_slow", 1);
    const double given = positive(reader, "rope.scaling.attn_factor", 1);
    scaling.attention_factor = given * (scaling.factor > 1 ? 0.1 * std::log(scaling.factor) + 1 : 1.0);
  } else if (type == "linear" || (type == "none" && has_factor)) {
    scaling.kind = RopeScaling::Kind::linear;
  } else if (type != "none") {
    reader.fail(ErrorKind::unsupported, "rope.scaling.type",
                fmt::format("\"{}\" is not implemented; supported are none, linear and yarn", type));
  }
  if (type != "yarn") (void)reader.number("rope.scaling.original_context_length");  // used by yarn only
  if (!(scaling.factor > 0)) reader.fail(ErrorKind::corrupt, "rope.scaling.factor", "expected a positive number");
  return scaling;
}

// Windows by layer: `sliding_window` on all layers, or on those that a boolean pattern marks.
std::vector<int> read_gguf_windows(GgufReader& reader, int layers) {
  const int window = reader.size("attention.sliding_window").value_or(0);
  const GgufValue* pattern = reader.value("attention.sliding_window_pattern");
  if (!pattern) return window == 0 ? std::vector<int>{} : std::vector<int>(static_cast<size_t>(layers), window);
  const auto* marks = std::get_if<std::vector<bool>>(pattern);
  if (!marks || static_cast<int>(marks->size()) != layers) {
    reader.fail(ErrorKind::unsupported, "attention.sliding_window_pattern",
                fmt::format("expected {} booleans, one a layer", layers));
    return {};
  }
  std::vector<int> windows;
  for (const bool sliding : *marks) windows.push_back(sliding ? window : 0);
  return windows;
}

}  // namespace

DenseConfig read_gguf_common(GgufReader& reader, bool mixture) {
  const Checkpoint& checkpoint = reader.checkpoint();
  DenseConfig config;
  config.hidden = reader.required_size("embedding_length");
  config.layers = reader.required_size("block_count");
  config.heads = reader.required_size("attention.head_count");
  config.kv_heads = reader.size("attention.head_count_kv").value_or(config.heads);
  config.head_dim = reader.size("attention.key_length").value_or(config.heads > 0 ? config.hidden / config.heads : 0);
  const int value_length = reader.size("attention.value_length").value_or(config.head_dim);
  if (value_length != config.head_dim) {
    reader.fail(ErrorKind::unsupported, "attention.value_length",
                fmt::format("expected the key length {}, found {}", config.head_dim, value_length));
  }
  config.intermediate =
      mixture ? reader.size("feed_forward_length").value_or(0) : reader.required_size("feed_forward_length");
  config.context_length = reader.required_size("context_length");
  config.eps = reader.number("attention.layer_norm_rms_epsilon").value_or(1e-5);
  config.rope_base = reader.number("rope.freq_base").value_or(10000);
  config.rope_dims = reader.size("rope.dimension_count").value_or(config.head_dim);
  config.rope_scaling = read_scaling(reader, config.context_length);
  if (static_cast<size_t>(config.layers) > checkpoint.tensors().size()) {  // also bounds the per-layer lists
    reader.fail(ErrorKind::corrupt, "block_count",
                fmt::format("{} blocks, but the file has {} tensors", config.layers, checkpoint.tensors().size()));
  } else {
    config.windows = read_gguf_windows(reader, config.layers);
  }
  return config;
}

Result<DenseConfig> read_gguf_config(const Checkpoint& checkpoint, const std::string& architecture) {
  GgufReader reader(checkpoint, architecture);
  DenseConfig config = read_gguf_common(reader, false);
  config.family = architecture;
  if (const int experts = reader.size("expert_count").value_or(0); experts != 0) {
    reader.fail(ErrorKind::unsupported, "expert_count", "mixtures of experts are not supported in this family");
  }
  (void)reader.size("expert_used_count");
  config.qkv_bias = config.output_bias = config.mlp_bias = Bias::if_present;
  if (Status status = reader.finish(); !status) return status.error();
  return config;
}

}  // namespace drafthorse
