#include "backend/cpu/buffers.h"

#include <algorithm>

namespace drafthorse::cpu {

Buffers make_buffers(const PackedNetwork& network, int64_t hidden, int capacity) {
  int64_t queries = 0, keys = 0, inner = 0, wide = 0, values = 0, heads = 0;
  std::map<int64_t, ActivationKinds> kinds;
  auto wants = [&](const PackedLayer& layer) { kinds[layer.linear.inputs].add(layer.linear.activations); };
  for (const PackedBlock& block : network.blocks) {
    for_each_layer(block, wants);
    if (const auto* a = std::get_if<PackedAttention>(&block.mixer)) {
      const int64_t here = int64_t(a->heads) * a->head_dim;
      queries = std::max(queries, here), keys = std::max(keys, int64_t(a->kv_heads) * a->head_dim);
      if (a->gated) wide = std::max(wide, 2 * here);
    } else {
      const DeltaShape& shape = std::get<PackedDelta>(block.mixer).shape;
      wide = std::max(wide, shape.channels()), values = std::max(values, shape.values());
      heads = std::max<int64_t>(heads, shape.value_heads);
    }
    if (const auto* mlp = std::get_if<PackedMlp>(&block.ffn)) {
      inner = std::max(inner, mlp->gate.linear.outputs);
    } else {
      kinds[hidden].add(std::get<PackedMoe>(block.ffn).gate_up.activations);
    }
  }
  wants(*network.head);
  if (network.joined_input) wants(network.joined_input->fc);
  Buffers b;
  b.capacity = capacity;
  auto floats = [&](std::vector<float>& v, int64_t width) {
    v.resize(size_t(capacity) * width);
    b.bytes += v.size() * sizeof(float);
  };
  floats(b.x, hidden), floats(b.y, hidden), floats(b.joined, network.joined_input ? 2 * hidden : 0);
  floats(b.q, queries), floats(b.k, keys), floats(b.v, keys), floats(b.attended, std::max(queries, values));
  floats(b.wide, wide), floats(b.z, values), floats(b.b, heads), floats(b.a, heads);
  floats(b.gate, inner), floats(b.up, inner);
  b.cos.resize(network.ropes.size()), b.sin.resize(network.ropes.size());
  for (size_t i = 0; i < network.ropes.size(); ++i) {
    floats(b.cos[i], network.ropes[i].dims / 2), floats(b.sin[i], network.ropes[i].dims / 2);
  }
  for (const auto& [inputs, kind] : kinds) {
    b.bytes += b.activations.emplace(inputs, Activations(inputs, capacity, kind)).first->second.bytes();
  }
  return b;
}

}  // namespace drafthorse::cpu
