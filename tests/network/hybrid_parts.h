#pragma once
// What a hybrid Network computes with, part by part, so that two layouts of one model can be compared.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "support/tiny_hybrid.h"

namespace drafthorse::test {

using Parts = std::map<std::string, std::vector<float>>;

inline std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  if (Status status = dequantise(tensor, 0, tensor.rows(), values); !status)
    throw std::runtime_error(status.error().message);
  return values;
}

inline std::vector<float> values_of(const Norm& norm) {
  std::vector<float> values = values_of(*norm.weight);
  for (float& value : values) value += norm.weight_offset;
  return values;
}

inline void add_mixer(Parts& parts, const std::string& name, const Attention& attention) {
  parts[name + "q"] = values_of(attention.q.weight);
  parts[name + "k"] = values_of(attention.k.weight);
  parts[name + "v"] = values_of(attention.v.weight);
  parts[name + "o"] = values_of(attention.o.weight);
  parts[name + "q_norm"] = values_of(*attention.q_norm);
  parts[name + "k_norm"] = values_of(*attention.k_norm);
  parts[name + "rope"] = attention.rope.inv_freq;
  parts[name + "sizes"] = {static_cast<float>(attention.heads),
                           static_cast<float>(attention.kv_heads),
                           static_cast<float>(attention.head_dim),
                           static_cast<float>(attention.gated),
                           static_cast<float>(attention.rope.interleaved),
                           attention.scale};
}

inline void add_mixer(Parts& parts, const std::string& name, const DeltaNet& delta) {
  parts[name + "qkv"] = values_of(delta.qkv.weight);
  parts[name + "z"] = values_of(delta.z.weight);
  parts[name + "b"] = values_of(delta.b.weight);
  parts[name + "a"] = values_of(delta.a.weight);
  parts[name + "conv"] = values_of(delta.conv);
  parts[name + "decay"] = values_of(delta.decay);
  if (delta.decay_is_log) {
    for (float& value : parts[name + "decay"]) value = -std::exp(value);
  }
  parts[name + "dt_bias"] = values_of(delta.dt_bias);
  parts[name + "norm"] = values_of(delta.norm);
  parts[name + "out"] = values_of(delta.out.weight);
  parts[name + "sizes"] = {static_cast<float>(delta.key_heads), static_cast<float>(delta.value_heads),
                           static_cast<float>(delta.key_dim),   static_cast<float>(delta.value_dim),
                           static_cast<float>(delta.kernel),    static_cast<float>(delta.gate)};
}

inline void add_ffn(Parts& parts, const std::string& name, const Mlp& mlp) {
  parts[name + "gate"] = values_of(mlp.gate.weight);
  parts[name + "up"] = values_of(mlp.up.weight);
  parts[name + "down"] = values_of(mlp.down.weight);
}

inline void add_ffn(Parts& parts, const std::string& name, const Moe& moe) {
  parts[name + "router"] = values_of(moe.router.weight);
  for (size_t i = 0; i < moe.experts.size(); ++i) add_ffn(parts, name + std::to_string(i) + ".", moe.experts[i]);
  if (moe.shared) add_ffn(parts, name + "shared.", *moe.shared);
  if (moe.shared_gate) parts[name + "shared_gate"] = values_of(moe.shared_gate->weight);
  parts[name + "sizes"] = {static_cast<float>(moe.top_k), static_cast<float>(moe.normalised)};
}

inline Parts parts_of(const Network& network) {
  Parts parts;
  parts["embedding"] = values_of(network.embedding);
  parts["head"] = values_of(network.head.weight);
  parts["final_norm"] = values_of(network.final_norm);
  for (size_t i = 0; i < network.blocks.size(); ++i) {
    const Block& block = network.blocks[i];
    const std::string name = std::to_string(i) + ".";
    parts[name + "before_mixer"] = values_of(block.before_mixer);
    parts[name + "before_ffn"] = values_of(block.before_ffn);
    std::visit([&](const auto& mixer) { add_mixer(parts, name + "mixer.", mixer); }, block.mixer);
    std::visit([&](const auto& ffn) { add_ffn(parts, name + "ffn.", ffn); }, block.ffn);
  }
  if (const auto& joined = network.joined_input) {
    parts["fc"] = values_of(joined->fc.weight);
    parts["embedding_norm"] = values_of(joined->embedding_norm);
    parts["hidden_norm"] = values_of(joined->hidden_norm);
  }
  if (!network.mtp) return parts;
  for (auto& [name, values] : parts_of(*network.mtp)) parts["mtp." + name] = values;
  return parts;
}

// The names of parts whose values differ, or that only one side has.
inline std::vector<std::string> differences(const Parts& a, const Parts& b) {
  std::vector<std::string> names;
  for (const auto& [name, values] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second != values) names.push_back(name);
  }
  for (const auto& [name, values] : b) {
    if (!a.contains(name)) names.push_back(name);
  }
  return names;
}

// GGUF's order of value heads for the parts of Hugging Face's.
inline Parts tile(const TinyHybrid& m, Parts parts) {
  const int64_t keys = 2 * m.key_heads * m.key_dim;
  for (auto& [name, values] : parts) {
    const auto is = [&, full = name](const char* part) { return full.ends_with(std::string("mixer.") + part); };
    if (is("qkv")) values = tile_heads(m, values, keys * m.hidden, m.value_dim * m.hidden);
    if (is("z")) values = tile_heads(m, values, 0, m.value_dim * m.hidden);
    if (is("b") || is("a")) values = tile_heads(m, values, 0, m.hidden);
    if (is("conv")) values = tile_heads(m, values, keys * m.kernel, m.value_dim * m.kernel);
    if (is("decay") || is("dt_bias")) values = tile_heads(m, values, 0, 1);
    if (!is("out")) continue;
    const int64_t row = m.value_heads * m.value_dim;
    for (int64_t r = 0; r < m.hidden; ++r) {
      const auto tiled = tile_heads(
          m, std::span(values).subspan(static_cast<size_t>(r * row), static_cast<size_t>(row)), 0, m.value_dim);
      std::copy(tiled.begin(), tiled.end(), values.begin() + r * row);
    }
  }
  return parts;
}

}  // namespace drafthorse::test
