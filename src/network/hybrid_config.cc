// config.json of Qwen's hybrid models and mixtures: nested (text_config) or flat.

#include "network/hybrid_config.h"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "network/dense_config.h"

namespace drafthorse {
namespace {

// Keys that a text model's logits do not depend on, beside those of every family.
std::set<std::string_view> harmless_hybrid_keys() {
  std::set<std::string_view> keys = harmless_config_keys();
  keys.insert({"audio_config", "image_token_id", "language_model_only", "mamba_ssm_dtype", "max_window_layers",
               "output_router_logits", "router_aux_loss_coef", "router_z_loss_coef", "sliding_window", "video_token_id",
               "vision_config", "vision_end_token_id", "vision_start_token_id"});
  return keys;
}

// Layer i is linear attention where layer_types says so, else unless i + 1 is a multiple of the interval.
void read_linear_layers(ConfigReader& reader, HybridConfig& config) {
  const auto layers = static_cast<size_t>(config.dense.layers);
  const int interval = reader.size("full_attention_interval", 4);
  const auto types = reader.texts("layer_types");
  if (!reader.status()) return;
  if (types && types->size() != layers) {
    reader.fail(ErrorKind::corrupt, "layer_types", fmt::format("expected {} entries, found {}", layers, types->size()));
    return;
  }
  for (size_t i = 0; i < layers; ++i) {
    if (types && (*types)[i] != "linear_attention" && (*types)[i] != "full_attention") {
      reader.fail(
          ErrorKind::unsupported, "layer_types",
          fmt::format("\"{}\" is not implemented; supported are linear_attention and full_attention", (*types)[i]));
      return;
    }
    config.linear.push_back(types ? (*types)[i] == "linear_attention" : (i + 1) % static_cast<size_t>(interval) != 0);
  }
}

void read_delta(ConfigReader& reader, HybridConfig& config) {
  const bool used = std::find(config.linear.begin(), config.linear.end(), true) != config.linear.end();
  const auto size = [&](const char* key) { return used ? reader.required_size(key) : reader.size(key, 0); };
  config.delta.key_heads = size("linear_num_key_heads");
  config.delta.value_heads = size("linear_num_value_heads");
  config.delta.key_dim = size("linear_key_head_dim");
  config.delta.value_dim = size("linear_value_head_dim");
  config.delta.kernel = reader.size("linear_conv_kernel_dim", 4);
  const std::string gate = reader.text("output_gate_type").value_or("silu");
  if (gate == "sigmoid") {
    config.delta.gate = Activation::sigmoid;
  } else if (gate != "silu" && gate != "swish") {
    reader.fail(ErrorKind::unsupported, "output_gate_type",
                fmt::format("\"{}\" is not implemented; supported are silu, swish and sigmoid", gate));
  }
}

// num_experts of 0 or less is a dense model, whatever its label.
void read_moe(ConfigReader& reader, HybridConfig& config, const HybridRules& rules) {
  const auto named = reader.integer("num_experts"), local = reader.integer("num_local_experts");
  if (named && local && *named != *local) {
    reader.fail(ErrorKind::corrupt, "num_local_experts",
                fmt::format("it contradicts \"num_experts\": {} and {}", *local, *named));
  }
  const int64_t experts = named ? *named : local.value_or(0);
  const int64_t shared = reader.integer("shared_expert_intermediate_size").value_or(0);
  const auto only_mlp = reader.integers("mlp_only_layers").value_or(std::vector<int64_t>{});
  const int step = reader.size("decoder_sparse_step", 1);
  config.moe.normalised = reader.boolean("norm_topk_prob", rules.normalised_top_k);
  if (experts <= 0) {
    for (const char* key : {"num_experts_per_tok", "moe_intermediate_size"}) (void)reader.integer(key);
  } else {
    config.moe.experts = experts > INT32_MAX ? 0 : static_cast<int>(experts);
    config.moe.top_k = reader.required_size("num_experts_per_tok");
    config.moe.intermediate = reader.required_size("moe_intermediate_size");
    config.moe.shared = shared > INT32_MAX || shared < 0 ? -1 : static_cast<int>(shared);
    if (config.moe.experts == 0) reader.fail(ErrorKind::corrupt, "num_experts", "expected at most 2147483647");
    if (config.moe.shared < 0) {
      reader.fail(ErrorKind::corrupt, "shared_expert_intermediate_size", "expected an integer from 0 to 2147483647");
    }
  }
  if (!reader.status()) return;
  for (int i = 0; i < config.dense.layers; ++i) {
    const bool listed = std::find(only_mlp.begin(), only_mlp.end(), i) != only_mlp.end();
    config.mixture.push_back(config.moe.experts > 0 && !listed && (i + 1) % step == 0);
  }
}

// The key mtp_hidden_state_mode, and where a side file lies.
void read_head(ConfigReader& reader, HybridConfig& config) {
  config.heads_in_file =
      static_cast<int>(std::clamp<int64_t>(reader.integer("mtp_num_hidden_layers").value_or(0), 0, INT32_MAX));
  if (config.heads_in_file > 1) {
    reader.fail(ErrorKind::unsupported, "mtp_num_hidden_layers",
                fmt::format("a drafting head of {} layers is not implemented; supported is 1", config.heads_in_file));
  }
  reader.expect_boolean("mtp_use_dedicated_embeddings", false);
  const auto mode = reader.text("mtp_hidden_state_mode");
  if (mode == "post_norm") config.head.hidden = Hidden::after_norm;
  if (mode == "pre_norm") config.head.hidden = Hidden::before_norm;
  if (mode && !config.head.hidden) {
    reader.fail(ErrorKind::unsupported, "mtp_hidden_state_mode",
                fmt::format("\"{}\" is not implemented; supported are post_norm and pre_norm", *mode));
  }
  if (const auto* extra = reader.object("mlx_lm_extra_tensors")) {
    ConfigReader inner(*extra, reader.place() + ": \"mlx_lm_extra_tensors\"");
    config.mtp_file = inner.text("mtp_file").value_or("");
    reader.adopt(inner.status());
  }
}

HybridConfig read_text(ConfigReader& reader, const HybridRules& rules) {
  HybridConfig config;
  config.dense = read_hugging_face_common(reader, {.rope_base = rules.hybrid ? 1e7 : 1e6,
                                                   .partial_rotary = rules.partial_rotary,
                                                   .mixture = true,
                                                   .has_other_senses = rules.hybrid});
  config.dense.family = rules.family;
  config.dense.qk_norms = true;
  const bool biases = reader.boolean("attention_bias", false);
  config.dense.qkv_bias = config.dense.output_bias = biases ? Bias::required : Bias::none;
  config.gated_attention = rules.gated && reader.boolean("attn_output_gate", true);
  if (rules.hybrid) {
    reader.expect_boolean("use_sliding_window", false);
    read_linear_layers(reader, config);
    read_delta(reader, config);
    read_head(reader, config);
  } else if (reader.status().ok()) {
    config.linear.assign(static_cast<size_t>(config.dense.layers), false);
    config.dense.windows = read_qwen_windows(reader, config.dense.layers);
  }
  read_moe(reader, config, rules);
  config.hybrid = rules.hybrid;
  return config;
}

// The settings lie in text_config, beside those of the other senses. A key that both may have counts from the outside.
Status read_outer(const Checkpoint& checkpoint, HybridConfig& config) {
  ConfigReader outer(checkpoint.config(), config_place(checkpoint));
  (void)outer.object("text_config");
  if (outer.has("tie_word_embeddings")) {
    const bool required = !outer.boolean("tie_word_embeddings", true);
    const auto* inner = checkpoint.config().at("text_config").get_object().if_contains("tie_word_embeddings");
    if (inner && !inner->is_null() && required != config.dense.head_required) {
      spdlog::warn("{}: \"tie_word_embeddings\" is {} at the top and {} in text_config; the first counts",
                   config_place(checkpoint), !required, required);
    }
    config.dense.head_required = required;
  }
  if (config.mtp_file.empty()) {
    if (const auto* extra = outer.object("mlx_lm_extra_tensors")) {
      ConfigReader reader(*extra, outer.place() + ": \"mlx_lm_extra_tensors\"");
      config.mtp_file = reader.text("mtp_file").value_or("");
      outer.adopt(reader.status());
    }
  }
  return outer.check_all_read(harmless_hybrid_keys());
}

}  // namespace

Result<HybridConfig> read_hybrid_config(const Checkpoint& checkpoint, const HybridRules& rules) {
  const boost::json::value* text = checkpoint.config().if_contains("text_config");
  const bool nested = text && text->is_object();
  ConfigReader reader(nested ? text->get_object() : checkpoint.config(),
                      config_place(checkpoint) + (nested ? ": \"text_config\"" : ""));
  if (const auto type = reader.text("model_type"); nested && type && !type->starts_with(rules.text_type)) {
    reader.fail(ErrorKind::unsupported, "model_type",
                fmt::format("\"{}\" is another architecture and not supported here", *type));
  }
  HybridConfig config = read_text(reader, rules);
  if (Status status = reader.check_all_read(harmless_hybrid_keys()); !status) return status.error();
  if (nested) {
    if (Status status = read_outer(checkpoint, config); !status) return status.error();
  }
  if (Status status = check_hybrid_config(checkpoint, config); !status) return status.error();
  return config;
}

namespace {

constexpr int kMaxHeadDim = 65'536;  // bounds the rotary table, which is made before tensors are looked up

Error sizes_error(const Checkpoint& checkpoint, const std::string& text) {
  return {ErrorKind::corrupt, fmt::format("{}: {}", checkpoint.path().string(), text), {}};
}

Status check_delta(const Checkpoint& checkpoint, const HybridConfig& c) {
  const DeltaSizes& d = c.delta;
  if (std::find(c.linear.begin(), c.linear.end(), true) == c.linear.end()) return {};
  if (d.key_heads < 1 || d.value_heads < 1 || d.key_dim < 1 || d.value_dim < 1) {
    return sizes_error(checkpoint, fmt::format("expected positive sizes of the linear attention, found {} key heads of "
                                               "{} and {} value heads of {}",
                                               d.key_heads, d.key_dim, d.value_heads, d.value_dim));
  }
  if (d.value_heads % d.key_heads != 0) {
    return sizes_error(checkpoint, fmt::format("the linear attention's {} value heads are no multiple of its {} key "
                                               "heads",
                                               d.value_heads, d.key_heads));
  }
  if (d.kernel < 2 || d.kernel > 64) {
    return sizes_error(checkpoint, fmt::format("expected a convolution over 2 to 64 rows, found {}", d.kernel));
  }
  if (d.key_dim > kMaxHeadDim || d.value_dim > kMaxHeadDim || d.channels() > INT32_MAX) {
    return sizes_error(checkpoint, fmt::format("the linear attention's {} key heads of {} and {} value heads of {} are "
                                               "too large",
                                               d.key_heads, d.key_dim, d.value_heads, d.value_dim));
  }
  return {};
}

Status check_moe(const Checkpoint& checkpoint, const HybridConfig& c) {
  const MoeSizes& m = c.moe;
  const bool some_dense = std::find(c.mixture.begin(), c.mixture.end(), false) != c.mixture.end();
  if (some_dense && c.dense.intermediate < 1) {
    return sizes_error(checkpoint,
                       "expected the size of the mlp (intermediate_size) of blocks without experts, but it "
                       "is missing");
  }
  if (m.experts == 0) return {};
  if (m.top_k < 1 || m.top_k > m.experts) {
    return sizes_error(checkpoint, fmt::format("expected 1 to {} experts a token, found {}", m.experts, m.top_k));
  }
  if (m.intermediate < 1 || m.intermediate > INT32_MAX / 2) {
    return sizes_error(checkpoint, fmt::format("the experts' size is {}", m.intermediate));
  }
  return {};
}

}  // namespace

Status check_hybrid_config(const Checkpoint& checkpoint, const HybridConfig& c) {
  const DenseConfig& d = c.dense;
  if (d.hidden < 1 || d.layers < 1 || d.heads < 1 || d.kv_heads < 1 || d.head_dim < 1) {
    return sizes_error(checkpoint,
                       fmt::format("expected positive sizes, found hidden {}, layers {}, heads {}, kv heads "
                                   "{}, head_dim {}",
                                   d.hidden, d.layers, d.heads, d.kv_heads, d.head_dim));
  }
  if (d.heads % d.kv_heads != 0) {
    return sizes_error(checkpoint, fmt::format("{} heads are no multiple of {} kv heads", d.heads, d.kv_heads));
  }
  if (d.head_dim > kMaxHeadDim || 2 * int64_t{d.heads} * d.head_dim > INT32_MAX || d.hidden > INT32_MAX / 2 ||
      d.intermediate > INT32_MAX / 2) {
    return sizes_error(checkpoint, fmt::format("hidden {}, {} heads of {} and an mlp of {} are too large", d.hidden,
                                               d.heads, d.head_dim, d.intermediate));
  }
  if (d.rope_dims < 2 || d.rope_dims > d.head_dim || d.rope_dims % 2 != 0) {
    return sizes_error(checkpoint, fmt::format("expected an even number of rotary dimensions from 2 to head_dim {}, "
                                               "found {}",
                                               d.head_dim, d.rope_dims));
  }
  if (d.context_length < 1) return sizes_error(checkpoint, "expected a positive context length");
  if (!(d.eps > 0 && d.eps < 1)) return sizes_error(checkpoint, fmt::format("the norms' eps is {}", d.eps));
  if (!(d.rope_base > 1)) return sizes_error(checkpoint, fmt::format("the rotary base is {}", d.rope_base));
  if (Status status = check_delta(checkpoint, c); !status) return status;
  return check_moe(checkpoint, c);
}

}  // namespace drafthorse
