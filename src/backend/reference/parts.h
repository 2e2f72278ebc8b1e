#pragma once
// The parts of a block on rows of fp32, one function each. A mixer or feed-forward of a new kind is a function here
// and a case in model.cc.

#include <span>
#include <vector>

#include "backend/backend.h"

namespace drafthorse::reference {

using Row = std::vector<float>;
using RowsOf = std::vector<Row>;  // [rows][width]

struct Mode {
  bool quantised = true;  // activations int8 by group and caches f16; else fp32
};

// Keys and values of one attention layer of one sequence: [positions][kv_heads * head_dim].
struct Cache {
  RowsOf keys, values;
};

// All elements, as fp32.
Row read_vector(const TensorView& tensor);
// W x + b for each row.
RowsOf linear(const Linear& layer, const RowsOf& x, Mode mode);
// x / sqrt(mean(x^2) + eps) * (weight + offset), over x[0, n).
void norm(const Norm& norm, std::span<float> x);
void rope(const Rope& rope, int position, std::span<float> head);
// Rows at positions first, first + 1, ...; appends their keys and values to the cache.
RowsOf attention(const Attention& part, const RowsOf& x, int first, Cache& cache, Mode mode);
RowsOf mlp(const Mlp& part, const RowsOf& x, Mode mode);

}  // namespace drafthorse::reference
