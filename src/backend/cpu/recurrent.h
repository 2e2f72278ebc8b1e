#pragma once
// The recurrent memory of a sequence: for every gated delta rule layer the states of its value heads, the inputs that
// its convolution still needs, and a tape of the tentative rows of the last run.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/delta.h"
#include "core/result.h"
#include "network/network.h"

namespace drafthorse::cpu {

struct DeltaShape {
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, kernel = 0;
  bool tiled = false;

  int values_per_key() const { return value_heads / key_heads; }
  // The n-th value head that reads a key head.
  int value_head(int key_head, int n) const {
    return tiled ? n * key_heads + key_head : key_head * values_per_key() + n;
  }
  int stripes() const { return value_dim / kStripe; }
  int64_t channels() const { return 2 * int64_t(key_heads) * key_dim + int64_t(value_heads) * value_dim; }
  int64_t values() const { return int64_t(value_heads) * value_dim; }
  // Of one key head and its value heads: channels q, k, v, v, …
  int64_t group_channels() const { return 2 * int64_t(key_dim) + int64_t(values_per_key()) * value_dim; }

  // A tape row of one key head: its channels before the convolution, k^, delta of every value head, g of every value head.
  int64_t tape_k() const { return group_channels(); }
  int64_t tape_delta() const { return tape_k() + key_dim; }
  int64_t tape_g() const { return tape_delta() + int64_t(values_per_key()) * value_dim; }
  int64_t tape_row() const { return (tape_g() + values_per_key() + kStripe - 1) / kStripe * kStripe; }
  // A history: the last kernel - 1 rows of channels before the convolution, then kMostTentative tape rows. In floats.
  int64_t tape_start() const { return (int64_t(kernel - 1) * group_channels() + kStripe - 1) / kStripe * kStripe; }
  int64_t history() const;
};

// A place is block * block_bytes + offset, block counted in the sequence's table; a record never crosses a block.
struct RecurrentLayout {
  struct Layer {
    DeltaShape shape;
    std::vector<size_t> stripes;    // [value_heads * stripes()] places of [key_dim][16] floats
    std::vector<size_t> histories;  // [key_heads]
  };
  std::vector<Layer> layers;
  int blocks = 0;  // of one sequence; 0: nothing is recurrent
};

// Error: unsupported, when a kernel is missing for the shape.
Result<DeltaShape> delta_shape(const DeltaNet& part);
// Bytes of the layer's largest record.
size_t largest_record(const DeltaShape& shape);
// Lays out layers in blocks of at least their largest record. Error: unsupported when that takes more than 2^20 blocks.
Result<RecurrentLayout> recurrent_layout(const std::vector<DeltaShape>& shapes, size_t block_bytes);

}  // namespace drafthorse::cpu
