#pragma once
// A Network as the CPU backend runs it: matrices packed, small tensors in fp32.

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/matmul.h"
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
  int heads = 0, kv_heads = 0, head_dim = 0;
  int rope = 0;  // index into PackedNetwork::ropes
  float scale = 0, softcap = 0;
  int window = 0;
};

struct PackedMlp {
  PackedLayer gate, up, down;
  Activation activation = Activation::silu;
};

struct PackedBlock {
  PackedNorm before_mixer, before_ffn;
  std::optional<PackedNorm> after_mixer, after_ffn;
  PackedAttention attention;
  PackedMlp mlp;
};

struct PackedNetwork {
  std::vector<PackedBlock> blocks;
  std::vector<Rope> ropes;  // distinct ones
  PackedNorm final_norm;
  PackedLayer head;
  uint64_t bytes = 0;  // of all matrices
};

// Packs every matrix, in parallel inside each. Errors name the block and the tensor.
Result<PackedNetwork> pack_network(const Network& network, ThreadPool& pool, const Progress& progress);

}  // namespace drafthorse::cpu
