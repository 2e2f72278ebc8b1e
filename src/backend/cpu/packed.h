#pragma once
// The data of a product: packed weights and quantised activations. Included by files that are compiled for one instruction
// set, so it brings in no code that another file could end up sharing with them.

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "backend/activation_format.h"

namespace drafthorse {

struct Kernels;  // kernels.h

// Page-aligned memory, huge pages advised.
class PageBuffer {
 public:
  PageBuffer() = default;
  explicit PageBuffer(size_t bytes);  // zeroed; throws std::bad_alloc
  ~PageBuffer();
  PageBuffer(PageBuffer&& other) noexcept;
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0, mapped_ = 0;
};

enum class PackedLayout : uint8_t;  // layouts.h

// A weight matrix [outputs, inputs], packed (layouts.h has the byte layout).
struct PackedLinear {
  int64_t outputs = 0, inputs = 0;
  ActivationKind activations = ActivationKind::f32;
  PackedLayout layout{};
  uint8_t scale_type = 0;     // layouts.h, ScaleType
  int steps_per_tile = 1;     // affine groups of 128: 2
  int64_t block_bytes = 0;    // bytes of one block of 16 outputs
  int64_t segment_bytes = 0;  // of which kSegment inputs take this many
  PageBuffer data;
  int64_t blocks() const { return (outputs + kBlockOutputs - 1) / kBlockOutputs; }
  size_t bytes() const { return data.size(); }
};

// The kinds of activations that a set of linears needs.
class ActivationKinds {
 public:
  ActivationKinds() = default;
  ActivationKinds(std::initializer_list<const PackedLinear*> linears) {
    for (const PackedLinear* linear : linears) add(linear->activations);
  }
  void add(ActivationKind kind) { bits_ |= 1 << static_cast<int>(kind); }
  bool has(ActivationKind kind) const { return bits_ >> static_cast<int>(kind) & 1; }

 private:
  uint8_t bits_ = 0;
};

// 512 inputs of one row, quantised. Sums are of q; products d * sum are rounded once to fp32.
// Entries are per activation group (16 of them for groups of 32, the first 8 for groups of 64) or per 16 inputs.
struct alignas(64) QuantisedSegment {
  int8_t q[kSegment];
  float d[16];
  float d_sum[16];
  int32_t sum[16];
  float d_sum16[32];
  int32_t sum16[32];
};

// Kernels may read this many rows past the last one (and throw their results away).
inline constexpr int kSpareRows = 3;

// Rows quantised once for all linears that share them.
class Activations {
 public:
  // Room for max_rows rows of `inputs` in every kind of `kinds`; grows no further. Kinds may be a superset.
  Activations(int64_t inputs, int max_rows, ActivationKinds kinds);
  void resize(int rows);  // 0..max_rows; forgets what was set. Not thread-safe.
  // Quantises x [inputs] as row `row`. Distinct rows may be set by distinct threads.
  void set_row(const Kernels& kernels, int row, const float* x);
  bool has(ActivationKind kind) const { return kinds_.has(kind); }
  int rows() const { return rows_; }
  int64_t inputs() const { return inputs_; }
  int64_t segments() const { return (inputs_ + kSegment - 1) / kSegment; }
  size_t bytes() const { return data_.size(); }
  // Segment-major: rows of one segment lie side by side. [kSegment] floats a row.
  const float* floats(int64_t segment, int row) const { return floats_ + (segment * rows_ + row) * kSegment; }
  const QuantisedSegment* quantised(ActivationKind kind, int64_t segment, int row) const {
    return (kind == ActivationKind::int8_group64 ? group64_ : group32_) + segment * rows_ + row;
  }

 private:
  int64_t inputs_;
  int max_rows_, rows_ = 0;
  ActivationKinds kinds_;
  PageBuffer data_;
  float* floats_ = nullptr;
  QuantisedSegment *group32_ = nullptr, *group64_ = nullptr;
};

}  // namespace drafthorse
