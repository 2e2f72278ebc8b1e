#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "network/dense_config.h"

namespace drafthorse {
namespace {

constexpr int kMaxLayers = 65'536;  // bounds the lists made before the tensors are looked up

// Checks that a value the scaling formulas divide by, or take the logarithm of, is at least `least`.
double at_least(ConfigReader& reader, std::string_view key, double value, double least) {
  if (!(value >= least))
    reader.fail(ErrorKind::corrupt, key, fmt::format("expected at least {}, found {}", least, value));
  return value;
}

RopeScaling read_llama3(ConfigReader& reader) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::llama3;
  scaling.low_freq_factor = at_least(reader, "low_freq_factor", reader.number("low_freq_factor", 0), 1e-6);
  scaling.high_freq_factor = at_least(reader, "high_freq_factor", reader.number("high_freq_factor", 0), 1e-6);
  scaling.original_context = reader.required_size("original_max_position_embeddings");
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    reader.fail(ErrorKind::corrupt, "high_freq_factor", "expected more than low_freq_factor");
  }
  return scaling;
}

RopeScaling read_yarn(ConfigReader& reader, int max_positions) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::yarn;
  scaling.original_context = reader.size("original_max_position_embeddings", max_positions);
  scaling.beta_fast = at_least(reader, "beta_fast", reader.number("beta_fast", 32), 1e-6);
  scaling.beta_slow = at_least(reader, "beta_slow", reader.number("beta_slow", 1), 1e-6);
  scaling.attention_factor = reader.number("attention_factor");
  scaling.mscale = reader.number("mscale", 1);
  scaling.mscale_all_dim = reader.number("mscale_all_dim", 0);
  scaling.truncate = reader.boolean("truncate", true);
  return scaling;
}

// One rope_scaling or rope_parameters object.
RopeScaling read_scaling(ConfigReader& reader, int max_positions, bool mrope) {
  const std::string type = reader.text("rope_type").value_or(reader.text("type").value_or("default"));
  RopeScaling scaling;
  if (type == "llama3") {
    scaling = read_llama3(reader);
  } else if (type == "yarn") {
    scaling = read_yarn(reader, max_positions);
  } else if (type == "linear") {
    scaling.kind = RopeScaling::Kind::linear;
  } else if (type != "default" && !(mrope && type == "mrope")) {
    reader.fail(ErrorKind::unsupported, "rope_type",
                fmt::format("\"{}\" is not implemented; supported are default, linear, llama3 and yarn", type));
  }
  if (scaling.kind != RopeScaling::Kind::none) {
    if (!reader.has("factor")) reader.fail(ErrorKind::corrupt, "factor", "expected a number, but it is missing");
    scaling.factor = at_least(reader, "factor", reader.number("factor", 1), 1e-6);
  } else {
    (void)reader.number("factor");  // meaningless without a type, and written by some programs
  }
  return scaling;
}

// Rotary settings lie at the top level (rope_theta, rope_scaling) or, in newer files, in rope_parameters.
void read_rope(ConfigReader& reader, DenseConfig& config, const HuggingFaceRules& rules) {
  config.rope_base = reader.number("rope_theta", rules.rope_base);
  double partial = reader.number("partial_rotary_factor", rules.partial_rotary);
  const boost::json::object* scaling = reader.object("rope_scaling");
  const boost::json::object* parameters = reader.object("rope_parameters");
  if (scaling && parameters && *scaling != *parameters) {
    reader.fail(ErrorKind::corrupt, "rope_parameters", "it contradicts the key \"rope_scaling\"; remove one of them");
  }
  if (parameters) scaling = parameters;
  if (scaling) {
    ConfigReader inner(*scaling,
                       fmt::format("{}: \"{}\"", reader.place(), parameters ? "rope_parameters" : "rope_scaling"));
    config.rope_base = inner.number("rope_theta", config.rope_base);
    partial = inner.number("partial_rotary_factor", partial);
    config.rope_scaling = read_scaling(inner, config.context_length, rules.has_other_senses);
    // A text's three position ids are equal, so that mrope's sections make no difference.
    static const std::set<std::string_view> kMrope = {"mrope_interleaved", "mrope_section"};
    reader.adopt(inner.check_all_read(rules.has_other_senses ? kMrope : std::set<std::string_view>{}));
  }
  if (!(partial > 0 && partial <= 1)) {
    reader.fail(ErrorKind::corrupt, "partial_rotary_factor", fmt::format("expected 0 to 1, found {}", partial));
    return;
  }
  config.rope_dims = static_cast<int>(config.head_dim * partial);
  if (config.rope_scaling.kind == RopeScaling::Kind::yarn) {
    // Files give either the stretched or the original length as max_position_embeddings.
    const double stretched = config.rope_scaling.factor * config.rope_scaling.original_context;
    if (stretched > config.context_length && stretched < 1e9) config.context_length = static_cast<int>(stretched);
  }
}

void check_architectures(ConfigReader& reader, const HuggingFaceRules& rules) {
  const auto architectures = reader.texts("architectures");
  if (!architectures) return;
  for (const std::string& name : *architectures) {
    if (name.ends_with("ForCausalLM")) continue;
    if (rules.has_other_senses && name.ends_with("ForConditionalGeneration")) continue;
    reader.fail(
        ErrorKind::unsupported, "architectures",
        fmt::format("\"{}\" is not a language model with a head; supported are names that end in \"ForCausalLM\"",
                    name));
  }
}

}  // namespace

DenseConfig read_hugging_face_common(ConfigReader& reader, const HuggingFaceRules& rules) {
  DenseConfig config;
  check_architectures(reader, rules);
  config.hidden = reader.required_size("hidden_size");
  config.layers = reader.required_size("num_hidden_layers");
  if (config.layers > kMaxLayers) {
    reader.fail(ErrorKind::corrupt, "num_hidden_layers", fmt::format("expected at most {}", kMaxLayers));
  }
  config.heads = reader.required_size("num_attention_heads");
  config.kv_heads = reader.size("num_key_value_heads", config.heads);
  config.head_dim = reader.size("head_dim", config.heads > 0 ? config.hidden / config.heads : 0);
  config.intermediate = rules.mixture ? reader.size("intermediate_size", 0) : reader.required_size("intermediate_size");
  config.vocab = reader.required_size("vocab_size");
  config.context_length = reader.required_size("max_position_embeddings");
  config.eps = reader.number("rms_norm_eps", 1e-6);
  reader.expect_text("hidden_act", "silu");
  reader.expect_boolean("rope_interleaved", false);
  reader.expect_boolean("is_encoder_decoder", false);
  reader.expect_boolean("use_mrope", false);
  // Without the key the tensors decide; with an explicit false a missing head is an error.
  config.head_required = reader.has("tie_word_embeddings") && !reader.boolean("tie_word_embeddings", true);
  if (const auto* pruned = reader.object("pruned_heads"); pruned && !pruned->empty()) {
    reader.fail(ErrorKind::unsupported, "pruned_heads", "pruned heads are not implemented");
  }
  read_rope(reader, config, rules);
  return config;
}

std::vector<int> read_windows(ConfigReader& reader, int layers, int sliding_window, int first_sliding) {
  const auto types = reader.texts("layer_types");
  std::vector<int> windows;
  if (types && static_cast<int>(types->size()) != layers) {
    reader.fail(ErrorKind::corrupt, "layer_types", fmt::format("expected {} entries, found {}", layers, types->size()));
    return windows;
  }
  if (!types) {
    if (sliding_window == 0) return windows;
    for (int i = 0; i < layers && reader.status().ok(); ++i) windows.push_back(i >= first_sliding ? sliding_window : 0);
    return windows;
  }
  for (const std::string& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      reader.fail(ErrorKind::unsupported, "layer_types",
                  fmt::format("\"{}\" is not implemented; supported are full_attention and sliding_attention", type));
    }
    windows.push_back(type == "sliding_attention" ? sliding_window : 0);
  }
  return windows;
}

std::vector<int> read_qwen_windows(ConfigReader& reader, int layers) {
  const bool used = reader.boolean("use_sliding_window", false);
  const int window = reader.size("sliding_window", 0);
  const auto first_sliding = reader.number("max_window_layers");
  return read_windows(reader, layers, used ? window : 0,
                      static_cast<int>(std::clamp(first_sliding.value_or(0), 0.0, 1e6)));
}

std::string config_place(const Checkpoint& checkpoint) { return (checkpoint.path() / "config.json").string(); }

}  // namespace drafthorse
