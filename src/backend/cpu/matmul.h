#pragma once
// Matrix products of packed weights. A quantised matrix is packed once, at load, in blocks of 16 outputs; a product
// of any number of rows reads it front to back. Results are those of scheme.h on every instruction set.
//
// In a parallel region:
//   activations.resize(rows);                            // one thread, before the region
//   for own rows r: activations.set_row(kernels, r, x)   // any split of rows over workers; then a barrier
//   for own blocks: matmul(kernels, jobs, activations, 0, rows, begin, end)

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/scheme.h"
#include "core/result.h"
#include "core/thread_pool.h"
#include "weights/checkpoint.h"
#include "weights/tensor.h"

namespace drafthorse {

struct Kernels;  // kernels.h

// The kernels of an instruction set: "auto" (the best this CPU has), "portable", "avx2", "avx512", "neon".
// Error: invalid_argument (unknown name), unsupported (this CPU or build lacks it; says which it has).
Result<const Kernels*> select_kernels(std::string_view isa);
// Every instruction set that this CPU and build can run, portable first.
std::vector<const Kernels*> available_kernels();
std::string_view isa_name(const Kernels& kernels);

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
  uint8_t scale_type = 0;      // layouts.h, ScaleType
  int steps_per_tile = 1;      // affine groups of 128: 2
  int64_t block_bytes = 0;     // bytes of one block of 16 outputs
  int64_t segment_bytes = 0;   // of which kSegment inputs take this many
  PageBuffer data;
  int64_t blocks() const { return (outputs + kBlockOutputs - 1) / kBlockOutputs; }
  size_t bytes() const { return data.size(); }
};

// Packs in parallel over blocks. With `checkpoint`, source pages are released as they are consumed.
// Error: unsupported or corrupt, naming tensor and format.
Result<PackedLinear> pack(const TensorView& weight, ThreadPool& pool, const Checkpoint* checkpoint = nullptr);

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

// Rows quantised once for all linears that share them.
class Activations {
 public:
  // Room for max_rows rows of `inputs` in every kind of `kinds`; grows no further. Kinds may be a superset.
  Activations(int64_t inputs, int max_rows, ActivationKinds kinds);
  void resize(int rows);       // 0..max_rows; forgets what was set. Not thread-safe.
  // Quantises x [inputs] as row `row`. Distinct rows may be set by distinct threads.
  void set_row(const Kernels& kernels, int row, const float* x);
  bool has(ActivationKind kind) const { return kinds_.has(kind); }
  int rows() const { return rows_; }
  int64_t inputs() const { return inputs_; }
  int64_t segments() const { return (inputs_ + kSegment - 1) / kSegment; }
  size_t bytes() const { return data_.size(); }
  // Segment-major: rows of one segment lie side by side. [kSegment] floats a row.
  const float* floats(int64_t segment, int row) const {
    return floats_ + (segment * rows_ + row) * kSegment;
  }
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

// Rows [row_begin, row_end) of the activations times outputs of blocks [block_begin, block_end):
// y[(r - row_begin) * ldy + o], o absolute (y points at output 0). Outputs past the matrix's last are not written.
// The linear's kind must be among the activations' kinds and the inputs must agree (a bug otherwise: throws).
void matmul(const Kernels& kernels, const PackedLinear& linear, const Activations& activations, int row_begin,
            int row_end, float* y, int64_t ldy, int64_t block_begin, int64_t block_end);

// Several linears that share activations, as one range of blocks: those of jobs[0], then jobs[1], …
struct MatmulJob {
  const PackedLinear* linear;
  float* y;
  int64_t ldy;
};
int64_t blocks(std::span<const MatmulJob> jobs);
void matmul(const Kernels& kernels, std::span<const MatmulJob> jobs, const Activations& activations, int row_begin,
            int row_end, int64_t block_begin, int64_t block_end);

// How many blocks a worker should take at once, so that chunks are neither tiny nor uneven.
int64_t blocks_per_chunk(std::span<const MatmulJob> jobs, int rows, int workers);

}  // namespace drafthorse
