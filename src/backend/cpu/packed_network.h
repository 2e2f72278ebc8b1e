#pragma once
// A Network as the CPU backend runs it: matrices packed, small tensors in fp32.

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/recurrent.h"
#include "core/thread_pool.h"

namespace drafthorse::cpu {

struct PackedLayer {
  PackedLinear linear;
  std::vector<float> bias;  // [out], or empty
};

// weight + weight_offset, ones where the file has none.
struct PackedNorm {
  std::vector<float> weight;
  float eps = 0;
};

struct PackedAttention {
  PackedLayer q, k, v, o;
  std::optional<PackedNorm> q_norm, k_norm;
  bool gated = false;
  int heads = 0, kv_heads = 0, head_dim = 0;
  int layer = 0;  // among the attention layers
  int rope = 0;   // index into PackedNetwork::ropes
  float scale = 0, softcap = 0;
  int window = 0;
};

struct PackedMlp {
  PackedLayer gate, up, down;
  Activation activation = Activation::silu;
};

struct PackedDelta {
  PackedLayer qkv, z, b, a, out;
  std::vector<float> taps;            // [kernel][channels]
  std::vector<float> decay, dt_bias;  // [value_heads]; decay is -exp(A_log)
  PackedNorm norm;
  Activation gate = Activation::silu;  // silu or sigmoid
  DeltaShape shape;
  int layer = 0;  // among the recurrent layers
};

// All experts of a block are one matrix: an expert is a range of its blocks of 16 outputs.
struct PackedMoe {
  PackedLayer router;
  PackedLinear gate_up;  // [experts * 2 * inner, hidden]: expert 0's gate, its up, expert 1's gate, …
  PackedLinear down;     // [experts * hidden, inner]
  int experts = 0, top_k = 0;
  int64_t inner = 0;
  bool normalised = true;
  Activation activation = Activation::silu;
  std::optional<PackedMlp> shared;
  std::optional<PackedLayer> shared_gate;
};

struct PackedBlock {
  PackedNorm before_mixer, before_ffn;
  std::optional<PackedNorm> after_mixer, after_ffn;
  std::variant<PackedAttention, PackedDelta> mixer;
  std::variant<PackedMlp, PackedMoe> ffn;
};

struct PackedJoinedInput {
  PackedNorm embedding_norm, hidden_norm;
  PackedLayer fc;
  bool embedding_first = true;
};

struct PackedNetwork {
  std::vector<PackedBlock> blocks;
  std::vector<Rope> ropes;  // distinct ones
  PackedNorm final_norm;
  std::optional<PackedJoinedInput> joined_input;
  std::shared_ptr<const PackedLayer> head;
  uint64_t bytes = 0;  // of all matrices that are this network's own
};

// Packs every matrix, in parallel inside each. With `head`, that is the head, packed before. Errors name the block and
// the tensor.
Result<PackedNetwork> pack_network(const Network& network, ThreadPool& pool, const Progress& progress,
                                   std::shared_ptr<const PackedLayer> head = {});

// f(layer) for every layer of a block but what a mixture runs on rows of its own: the experts and the shared one's down.
template <class F>
void for_each_layer(const PackedBlock& block, F f) {
  auto mlp = [&](const PackedMlp& m) { f(m.gate), f(m.up), f(m.down); };
  if (const auto* a = std::get_if<PackedAttention>(&block.mixer)) {
    f(a->q), f(a->k), f(a->v), f(a->o);
  } else {
    const PackedDelta& d = std::get<PackedDelta>(block.mixer);
    f(d.qkv), f(d.z), f(d.b), f(d.a), f(d.out);
  }
  if (const auto* m = std::get_if<PackedMlp>(&block.ffn)) return mlp(*m);
  const PackedMoe& moe = std::get<PackedMoe>(block.ffn);
  f(moe.router);
  if (moe.shared) f(moe.shared->gate), f(moe.shared->up);
  if (moe.shared_gate) f(*moe.shared_gate);
}

}  // namespace drafthorse::cpu
