#pragma once
// Intermediate results of the rows that go through the blocks together.

#include <map>
#include <vector>

#include "backend/cpu/packed_network.h"

namespace drafthorse::cpu {

struct Buffers {
  int capacity = 0;           // rows
  std::vector<float> x, y;    // [rows, hidden]: the residual stream; a part's result
  std::vector<float> joined;  // [rows, 2 * hidden]
  // Attention: what is attended with, and a gated q as its projection gives it.
  std::vector<float> q, k, v, attended;
  // Gated delta rule: u (shares memory with a gated q), z, b, a; its y is `attended`.
  std::vector<float> wide, z, b, a;
  std::vector<float> gate, up;
  std::vector<std::vector<float>> cos, sin;    // by rope: [rows, dims / 2]
  std::map<int64_t, Activations> activations;  // by number of inputs
  size_t bytes = 0;
};

Buffers make_buffers(const PackedNetwork& network, int64_t hidden, int capacity);

}  // namespace drafthorse::cpu
