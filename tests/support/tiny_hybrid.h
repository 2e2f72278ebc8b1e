#pragma once
// Tiny random checkpoints of Qwen's hybrid models and mixtures as data that a test can change before it is written:
// Hugging Face folders (norms minus one, fused experts), MLX folders (converted norms, split experts) and GGUF (value
// heads tiled, decay exponentiated). A tensor's values depend on the seed and its name only, and those of norms, decays
// and dt biases are exact in every layout, so that the three hold the same model.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "support/tiny_models.h"

namespace drafthorse::test {

struct TinyHybrid {
  std::string type = "qwen3_5_text";  // the config's model_type
  bool mixture = false;
  int layers = 4, interval = 2, hidden = 64, heads = 2, kv_heads = 1, head_dim = 32, intermediate = 96, vocab = 256;
  int key_heads = 2, value_heads = 4, key_dim = 16, value_dim = 16, kernel = 4;
  int experts = 8, top_k = 2, expert_size = 32, shared = 32;
  int context = 512;
  bool tied = true, head = true;  // head: a drafting head
  uint64_t seed = 1;

  bool linear(int layer) const { return (layer + 1) % interval != 0; }
  int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};

// A tensor as a file holds it.
struct FileTensor {
  std::string name;
  Format format = Format::f32;
  std::vector<int64_t> shape;
  Bytes data;
};

// One tensor of the model, named as in a Hugging Face file without the prefix "model.", and as in GGUF.
struct HybridTensor {
  enum class Kind { matrix, norm, plain_norm, decay, dt_bias, convolution, gate_up, stack };
  std::string name, gguf_name;
  std::vector<int64_t> shape;  // Hugging Face's; gate_up: [experts, 2 * size, hidden]
  Kind kind = Kind::matrix;
  // Rows (or columns) that GGUF reorders: those of the value heads, `value_rows` a head, from row `first_value_row` on.
  int64_t value_rows = 0, first_value_row = 0;
  bool value_columns = false;
};

class HybridTensors {
 public:
  explicit HybridTensors(const TinyHybrid& m) : m_(m) {
    add("embed_tokens.weight", "token_embd.weight", {m.vocab, m.hidden});
    for (int i = 0; i < m.layers; ++i) {
      block("layers." + std::to_string(i) + ".", "blk." + std::to_string(i) + ".", m.linear(i));
    }
    add("norm.weight", "output_norm.weight", {m.hidden}, Kind::norm);
    if (!m.tied) add("lm_head.weight", "output.weight", {m.vocab, m.hidden});
    if (m.head) head("mtp.", "blk." + std::to_string(m.layers) + ".");
  }
  std::vector<HybridTensor> take() && { return std::move(list_); }

 private:
  using Kind = HybridTensor::Kind;

  HybridTensor& add(const std::string& name, const std::string& gguf_name, std::vector<int64_t> shape,
                    Kind kind = Kind::matrix) {
    return list_.emplace_back(HybridTensor{name, gguf_name, std::move(shape), kind});
  }

  void attention(const std::string& hf, const std::string& gguf) {
    const int64_t q = m_.heads * m_.head_dim, kv = m_.kv_heads * m_.head_dim;
    add(hf + "q_proj.weight", gguf + "attn_q.weight", {2 * q, m_.hidden});
    add(hf + "k_proj.weight", gguf + "attn_k.weight", {kv, m_.hidden});
    add(hf + "v_proj.weight", gguf + "attn_v.weight", {kv, m_.hidden});
    add(hf + "o_proj.weight", gguf + "attn_output.weight", {m_.hidden, q});
    add(hf + "q_norm.weight", gguf + "attn_q_norm.weight", {m_.head_dim}, Kind::norm);
    add(hf + "k_norm.weight", gguf + "attn_k_norm.weight", {m_.head_dim}, Kind::norm);
  }

  void delta(const std::string& hf, const std::string& gguf) {
    const int64_t keys = 2 * m_.key_heads * m_.key_dim, values = m_.value_heads * m_.value_dim;
    const auto tiled = [](HybridTensor& tensor, int64_t rows, int64_t first) {
      tensor.value_rows = rows;
      tensor.first_value_row = first;
    };
    tiled(add(hf + "in_proj_qkv.weight", gguf + "attn_qkv.weight", {keys + values, m_.hidden}), m_.value_dim, keys);
    tiled(add(hf + "in_proj_z.weight", gguf + "attn_gate.weight", {values, m_.hidden}), m_.value_dim, 0);
    tiled(add(hf + "in_proj_b.weight", gguf + "ssm_beta.weight", {m_.value_heads, m_.hidden}), 1, 0);
    tiled(add(hf + "in_proj_a.weight", gguf + "ssm_alpha.weight", {m_.value_heads, m_.hidden}), 1, 0);
    tiled(add(hf + "conv1d.weight", gguf + "ssm_conv1d.weight", {keys + values, 1, m_.kernel}, Kind::convolution),
          m_.value_dim, keys);
    tiled(add(hf + "A_log", gguf + "ssm_a", {m_.value_heads}, Kind::decay), 1, 0);
    tiled(add(hf + "dt_bias", gguf + "ssm_dt.bias", {m_.value_heads}, Kind::dt_bias), 1, 0);
    add(hf + "norm.weight", gguf + "ssm_norm.weight", {m_.value_dim}, Kind::plain_norm);
    HybridTensor& out = add(hf + "out_proj.weight", gguf + "ssm_out.weight", {m_.hidden, values});
    out.value_rows = m_.value_dim;
    out.value_columns = true;
  }

  void ffn(const std::string& hf, const std::string& gguf) {
    const auto mlp = [&](const std::string& path, const std::string& suffix, int64_t size) {
      add(path + "gate_proj.weight", gguf + "ffn_gate" + suffix + ".weight", {size, m_.hidden});
      add(path + "up_proj.weight", gguf + "ffn_up" + suffix + ".weight", {size, m_.hidden});
      add(path + "down_proj.weight", gguf + "ffn_down" + suffix + ".weight", {m_.hidden, size});
    };
    if (!m_.mixture) return mlp(hf, "", m_.intermediate);
    add(hf + "gate.weight", gguf + "ffn_gate_inp.weight", {m_.experts, m_.hidden});
    add(hf + "experts.gate_up_proj", gguf, {m_.experts, 2 * m_.expert_size, m_.hidden}, Kind::gate_up);
    add(hf + "experts.down_proj", gguf + "ffn_down_exps.weight", {m_.experts, m_.hidden, m_.expert_size}, Kind::stack);
    mlp(hf + "shared_expert.", "_shexp", m_.shared);
    add(hf + "shared_expert_gate.weight", gguf + "ffn_gate_inp_shexp.weight", {1, m_.hidden});
  }

  void block(const std::string& hf, const std::string& gguf, bool linear) {
    add(hf + "input_layernorm.weight", gguf + "attn_norm.weight", {m_.hidden}, Kind::norm);
    if (linear) {
      delta(hf + "linear_attn.", gguf);
    } else {
      attention(hf + "self_attn.", gguf);
    }
    add(hf + "post_attention_layernorm.weight", gguf + "post_attention_norm.weight", {m_.hidden}, Kind::norm);
    ffn(hf + "mlp.", gguf);
  }

  void head(const std::string& hf, const std::string& gguf) {
    add(hf + "pre_fc_norm_embedding.weight", gguf + "nextn.enorm.weight", {m_.hidden}, Kind::norm);
    add(hf + "pre_fc_norm_hidden.weight", gguf + "nextn.hnorm.weight", {m_.hidden}, Kind::norm);
    add(hf + "fc.weight", gguf + "nextn.eh_proj.weight", {m_.hidden, 2 * m_.hidden});
    block(hf + "layers.0.", gguf, false);
    add(hf + "norm.weight", gguf + "nextn.shared_head_norm.weight", {m_.hidden}, Kind::norm);
  }

  TinyHybrid m_;
  std::vector<HybridTensor> list_;
};

inline std::vector<HybridTensor> hybrid_tensors(const TinyHybrid& m) { return HybridTensors(m).take(); }

// What the model computes with, in Hugging Face's order of rows; norms as they are applied.
inline std::vector<float> hybrid_values(const TinyHybrid& m, const HybridTensor& tensor) {
  using Kind = HybridTensor::Kind;
  Random random(m.seed, tensor.name);
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  const bool table = tensor.name == "embed_tokens.weight" || tensor.name == "lm_head.weight";
  const double size = table ? 0.3 : 1.2 / std::sqrt(static_cast<double>(tensor.shape.back()));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const float normal = random.normal();
    const auto in_steps = [](float x) { return std::round(x * 64) / 64; };  // exact in bf16, minus one as well
    switch (tensor.kind) {
      case Kind::norm: value = std::max(in_steps(0.9f + 0.2f * normal), 1 / 64.0f); break;
      case Kind::plain_norm: value = in_steps(1 + 0.2f * normal); break;
      case Kind::decay: value = in_steps(0.5f * normal); break;
      case Kind::dt_bias: value = in_steps(normal - 2); break;
      case Kind::convolution: value = 0.5f * normal; break;
      default: value = static_cast<float>(size) * normal;
    }
  }
  return values;
}

// Value head j = i * key_heads + k of GGUF is head k * ratio + i; reorders units of `unit` values.
inline std::vector<float> tile_heads(const TinyHybrid& m, std::span<const float> values, int64_t first, int64_t unit) {
  std::vector<float> result(values.begin(), values.end());
  const int64_t ratio = m.value_heads / m.key_heads;
  for (int64_t j = 0; j < m.value_heads; ++j) {
    const int64_t source = j % m.key_heads * ratio + j / m.key_heads;
    std::copy_n(values.begin() + first + source * unit, unit, result.begin() + first + j * unit);
  }
  return result;
}

inline std::vector<float> tiled_values(const TinyHybrid& m, const HybridTensor& tensor) {
  std::vector<float> values = hybrid_values(m, tensor);
  if (tensor.value_rows == 0) return values;
  const int64_t row = tensor.kind == HybridTensor::Kind::convolution ? m.kernel
                      : tensor.shape.size() > 1                      ? tensor.shape.back()
                                                                     : 1;
  if (!tensor.value_columns) return tile_heads(m, values, tensor.first_value_row * row, tensor.value_rows * row);
  for (int64_t r = 0; r < tensor.shape[0]; ++r) {
    const auto tiled = tile_heads(m, std::span(values).subspan(static_cast<size_t>(r * row), static_cast<size_t>(row)),
                                  0, tensor.value_rows);
    std::copy(tiled.begin(), tiled.end(), values.begin() + r * row);
  }
  return values;
}

// A folder of safetensors, to be changed and written.
struct HybridFolder {
  boost::json::object config;
  std::vector<FileTensor> tensors;

  FileTensor& tensor(const std::string& name) {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](auto& t) { return t.name == name; });
    if (found == tensors.end()) throw std::runtime_error("no tensor " + name);
    return *found;
  }
  void erase(const std::string& name) {
    std::erase_if(tensors, [&](const FileTensor& tensor) { return tensor.name == name; });
  }
  void save(const std::filesystem::path& folder, const std::string& file = "model.safetensors") const {
    std::filesystem::create_directories(folder);
    SafetensorsWriter writer;
    for (const FileTensor& tensor : tensors) writer.add(tensor.name, tensor.format, tensor.shape, tensor.data);
    writer.save_as(folder / file);
    save_text(folder / "config.json", boost::json::serialize(config));
  }
};

inline boost::json::object hybrid_config_json(const TinyHybrid& m) {
  boost::json::array types;
  for (int i = 0; i < m.layers; ++i) types.emplace_back(m.linear(i) ? "linear_attention" : "full_attention");
  boost::json::object config = {
      {"model_type", m.type},
      {"vocab_size", m.vocab},
      {"hidden_size", m.hidden},
      {"num_hidden_layers", m.layers},
      {"num_attention_heads", m.heads},
      {"num_key_value_heads", m.kv_heads},
      {"head_dim", m.head_dim},
      {"hidden_act", "silu"},
      {"max_position_embeddings", m.context},
      {"rms_norm_eps", 1e-6},
      {"tie_word_embeddings", m.tied},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}, {"partial_rotary_factor", 0.25}}},
      {"layer_types", types},
      {"full_attention_interval", m.interval},
      {"linear_conv_kernel_dim", m.kernel},
      {"linear_key_head_dim", m.key_dim},
      {"linear_value_head_dim", m.value_dim},
      {"linear_num_key_heads", m.key_heads},
      {"linear_num_value_heads", m.value_heads},
      {"mtp_num_hidden_layers", m.head ? 1 : 0}};
  if (m.mixture) {
    config["num_experts"] = m.experts;
    config["num_experts_per_tok"] = m.top_k;
    config["moe_intermediate_size"] = m.expert_size;
    config["shared_expert_intermediate_size"] = m.shared;
  } else {
    config["intermediate_size"] = m.intermediate;
  }
  return config;
}

// Where a Hugging Face or MLX file keeps a tensor.
inline std::string prefixed(const HybridTensor& tensor, const std::string& trunk, const std::string& outside) {
  return (tensor.name.starts_with("mtp.") || tensor.name == "lm_head.weight" ? outside : trunk) + tensor.name;
}

// As transformers writes it: norms minus one, experts fused.
inline HybridFolder hugging_face_hybrid(const TinyHybrid& m, Format format = Format::f32) {
  HybridFolder folder{hybrid_config_json(m), {}};
  for (const HybridTensor& tensor : hybrid_tensors(m)) {
    std::vector<float> values = hybrid_values(m, tensor);
    if (tensor.kind == HybridTensor::Kind::norm) {
      for (float& value : values) value -= 1;
    }
    folder.tensors.push_back({prefixed(tensor, "model.", ""), format, tensor.shape, encode_plain(format, values)});
  }
  return folder;
}

// Half 0 or 1 of each expert's rows.
inline std::vector<float> expert_half(const HybridTensor& tensor, std::span<const float> values, int64_t half) {
  const int64_t size = tensor.shape[1] / 2 * tensor.shape[2];
  std::vector<float> result;
  for (int64_t e = 0; e < tensor.shape[0]; ++e) {
    const auto begin = values.begin() + (2 * e + half) * size;
    result.insert(result.end(), begin, begin + size);
  }
  return result;
}

// As mlx-lm writes it without quantising: norms as they are applied, the kernel's axis in the middle, experts split.
inline HybridFolder mlx_hybrid(const TinyHybrid& m, Format format = Format::f32) {
  using Kind = HybridTensor::Kind;
  HybridFolder folder{hybrid_config_json(m), {}};
  for (const HybridTensor& tensor : hybrid_tensors(m)) {
    const std::vector<float> values = hybrid_values(m, tensor);
    std::string name = prefixed(tensor, "language_model.model.", "language_model.");
    std::vector<int64_t> shape = tensor.shape;
    if (tensor.kind == Kind::convolution) shape = {shape[0], shape[2], 1};
    const size_t experts = name.find("experts.");
    if (tensor.kind == Kind::gate_up || tensor.kind == Kind::stack) name.replace(experts, 8, "switch_mlp.");
    if (tensor.kind == Kind::gate_up) {
      const std::string path = name.substr(0, name.size() - std::string("gate_up_proj").size());
      const std::vector<int64_t> half = {shape[0], shape[1] / 2, shape[2]};
      for (int64_t i : {0, 1}) {
        folder.tensors.push_back({path + (i == 0 ? "gate_proj.weight" : "up_proj.weight"), format, half,
                                  encode_plain(format, expert_half(tensor, values, i))});
      }
      continue;
    }
    if (tensor.kind == Kind::stack) name += ".weight";
    folder.tensors.push_back({name, format, shape, encode_plain(format, values)});
  }
  return folder;
}

// Quantises (random words) every matrix of an MLX folder whose name `wanted` accepts.
inline void quantise_mlx(HybridFolder& folder, int bits, int group_size, uint64_t seed,
                         const std::function<bool(const std::string&)>& wanted) {
  std::vector<FileTensor> result;
  for (FileTensor& tensor : folder.tensors) {
    const bool matrix =
        tensor.shape.size() >= 2 && tensor.name.ends_with(".weight") && !tensor.name.ends_with("conv1d.weight");
    if (!matrix || !wanted(tensor.name)) {
      result.push_back(std::move(tensor));
      continue;
    }
    Random random(seed, tensor.name);
    const OwnedTensor owned = random_mlx(Format::affine, bits, group_size, Format::bf16, tensor.shape, random,
                                         1.2 / std::sqrt(static_cast<double>(tensor.shape.back())));
    const std::string path = tensor.name.substr(0, tensor.name.size() - std::string(".weight").size());
    std::vector<int64_t> words = tensor.shape, groups = tensor.shape;
    words.back() = words.back() * bits / 32;
    groups.back() /= group_size;
    result.push_back({tensor.name, Format::u32, words, owned.data});
    result.push_back({path + ".scales", Format::bf16, groups, owned.scales});
    result.push_back({path + ".biases", Format::bf16, groups, owned.biases});
  }
  folder.tensors = std::move(result);
}

// A GGUF file, to be changed and written.
struct HybridGguf {
  std::vector<std::pair<std::string, GgufWriter::Value>> metadata;
  std::vector<FileTensor> tensors;

  void set(const std::string& key, GgufWriter::Value value) {
    std::erase_if(metadata, [&](const auto& item) { return item.first == key; });
    metadata.emplace_back(key, std::move(value));
  }
  void save(const std::filesystem::path& file) const {
    GgufWriter writer;
    for (const auto& [key, value] : metadata) writer.set(key, value);
    for (const FileTensor& tensor : tensors) writer.add(tensor.name, tensor.format, tensor.shape, tensor.data);
    writer.save_as(file);
  }
};

inline void set_hybrid_metadata(HybridGguf& gguf, const TinyHybrid& m, const std::string& architecture) {
  const auto size = [&](const char* key, int value) {
    gguf.set(architecture + "." + key, static_cast<uint32_t>(value));
  };
  gguf.set("general.architecture", architecture);
  size("context_length", m.context);
  size("vocab_size", m.vocab);
  size("embedding_length", m.hidden);
  size("block_count", m.layers + (m.head ? 1 : 0));
  size("attention.head_count", m.heads);
  size("attention.head_count_kv", m.kv_heads);
  size("attention.key_length", m.head_dim);
  size("attention.value_length", m.head_dim);
  size("rope.dimension_count", m.head_dim / 4);
  size("ssm.conv_kernel", m.kernel);
  size("ssm.state_size", m.key_dim);
  size("ssm.group_count", m.key_heads);
  size("ssm.time_step_rank", m.value_heads);
  size("ssm.inner_size", m.value_heads * m.value_dim);
  size("full_attention_interval", m.interval);
  if (m.head) size("nextn_predict_layers", 1);
  if (m.mixture) {
    size("expert_count", m.experts);
    size("expert_used_count", m.top_k);
    size("expert_feed_forward_length", m.expert_size);
    size("expert_shared_feed_forward_length", m.shared);
  } else {
    size("feed_forward_length", m.intermediate);
  }
  gguf.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
  gguf.set(architecture + ".rope.freq_base", 10000.0f);
}

// As converters write it: value heads tiled, norms as they are applied, -exp(A_log), experts split.
inline HybridGguf gguf_hybrid(const TinyHybrid& m) {
  using Kind = HybridTensor::Kind;
  HybridGguf gguf;
  set_hybrid_metadata(gguf, m, m.mixture ? "qwen35moe" : "qwen35");
  for (const HybridTensor& tensor : hybrid_tensors(m)) {
    std::vector<float> values = tiled_values(m, tensor);
    std::vector<int64_t> shape = tensor.shape;
    if (tensor.kind == Kind::convolution) shape = {shape[0], shape[2]};
    if (tensor.gguf_name.ends_with("ffn_gate_inp_shexp.weight")) shape = {shape[1]};
    if (tensor.kind == Kind::decay) {
      for (float& value : values) value = -std::exp(value);
    }
    if (tensor.kind == Kind::gate_up) {
      const std::vector<int64_t> half = {shape[0], shape[1] / 2, shape[2]};
      for (int64_t i : {0, 1}) {
        gguf.tensors.push_back({tensor.gguf_name + (i == 0 ? "ffn_gate_exps.weight" : "ffn_up_exps.weight"),
                                Format::f32, half, encode_plain(Format::f32, expert_half(tensor, values, i))});
      }
      continue;
    }
    gguf.tensors.push_back({tensor.gguf_name, Format::f32, shape, encode_plain(Format::f32, values)});
  }
  return gguf;
}

}  // namespace drafthorse::test
