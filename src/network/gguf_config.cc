#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "network/dense_config.h"
#include "weights/gguf.h"

namespace drafthorse {
namespace {

// Reads keys "{architecture}.KEY"; keeps the first error and knows which keys were read, as ConfigReader does.
class GgufReader {
 public:
  GgufReader(const Checkpoint& checkpoint, std::string architecture)
      : checkpoint_(checkpoint), prefix_(std::move(architecture) + ".") {}

  const GgufValue* value(std::string_view key) {
    const std::string full = prefix_ + std::string(key);
    read_.insert(full);
    const auto found = checkpoint_.metadata().find(full);
    return found == checkpoint_.metadata().end() ? nullptr : &found->second;
  }

  // A size from 0 to 2^31-1: an integer, or an array with the same value for every layer.
  std::optional<int> size(std::string_view key) {
    const GgufValue* found = value(key);
    if (!found) return std::nullopt;
    const int64_t* number = std::get_if<int64_t>(found);
    if (const auto* list = std::get_if<std::vector<int64_t>>(found); list && !list->empty()) {
      number = &list->front();
      if (std::any_of(list->begin(), list->end(), [&](int64_t n) { return n != *number; })) {
        fail(ErrorKind::unsupported, key, "layers with different sizes are not supported in this family");
        return std::nullopt;
      }
    }
    if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) {
      fail(ErrorKind::corrupt, key, "expected an integer from 0 to 2147483647");
      return std::nullopt;
    }
    return static_cast<int>(*number);
  }

  int required_size(std::string_view key) {
    const bool had_error = !status_.ok();
    const auto found = size(key);
    if (!found && !had_error) fail(ErrorKind::corrupt, key, "expected an integer, but it is missing");
    return found.value_or(0);
  }

  std::optional<double> number(std::string_view key) {
    const GgufValue* found = value(key);
    if (!found) return std::nullopt;
    const double* real = std::get_if<double>(found);
    const int64_t* integer = std::get_if<int64_t>(found);
    const double result = real ? *real : integer ? static_cast<double>(*integer) : std::nan("");
    if (!std::isfinite(result)) {
      fail(ErrorKind::corrupt, key, "expected a number");
      return std::nullopt;
    }
    return result;
  }

  std::string text(std::string_view key, const char* fallback) {
    const GgufValue* found = value(key);
    if (!found) return fallback;
    if (const auto* text = std::get_if<std::string>(found)) return *text;
    fail(ErrorKind::corrupt, key, "expected a string");
    return fallback;
  }

  void fail(ErrorKind kind, std::string_view key, const std::string& text) {
    if (!status_) return;
    status_ =
        Error{kind, fmt::format("{}: metadata key \"{}{}\": {}", checkpoint_.path().string(), prefix_, key, text), {}};
  }

  // Every key of the architecture must have been read or be harmless: others may change what the model computes.
  Status finish() const {
    if (!status_) return status_;
    const std::set<std::string> harmless = {prefix_ + "vocab_size", prefix_ + "rope.scaling.finetuned",
                                            prefix_ + "tensor_data_layout"};
    std::vector<std::string> unknown;
    for (const auto& [key, value] : checkpoint_.metadata()) {
      if (key.starts_with(prefix_) && !read_.contains(key) && !harmless.contains(key)) unknown.push_back(key);
    }
    if (unknown.empty()) return {};
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: these metadata keys are not understood and may change what the model computes: {}",
                             checkpoint_.path().string(), fmt::join(unknown, ", ")),
                 {}};
  }

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
  std::set<std::string> read_;
  Status status_;
};

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

Result<DenseConfig> read_gguf_config(const Checkpoint& checkpoint, const std::string& architecture) {
  GgufReader reader(checkpoint, architecture);
  DenseConfig config;
  config.family = architecture;
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
  config.intermediate = reader.required_size("feed_forward_length");
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
  if (const int experts = reader.size("expert_count").value_or(0); experts != 0) {
    reader.fail(ErrorKind::unsupported, "expert_count", "mixtures of experts are not supported in this family");
  }
  (void)reader.size("expert_used_count");
  config.qkv_bias = config.output_bias = config.mlp_bias = Bias::if_present;
  if (Status status = reader.finish(); !status) return status.error();
  return config;
}

}  // namespace drafthorse
