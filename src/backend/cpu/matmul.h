#pragma once
// Matrix products of packed weights. A quantised matrix is packed once, at load, in blocks of 16 outputs; a product
// of any number of rows reads it front to back. Results are those of scheme.h on every instruction set.
//
// In a parallel region:
//   activations.resize(rows);                            // one thread, before the region
//   for own rows r: activations.set_row(kernels, r, x)   // any split of rows over workers; then a barrier
//   for own blocks: matmul(kernels, jobs, activations, 0, rows, begin, end)

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cpu/packed.h"
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

// Row `row` of `to` becomes row `from_row` of `from`, which has the same inputs and at least its kinds. Distinct rows may
// be copied by distinct threads.
void copy_row(Activations& to, int row, const Activations& from, int from_row);

// Packs in parallel over blocks. With `checkpoint`, source pages are released as they are consumed.
// Error: unsupported or corrupt, naming tensor and format.
Result<PackedLinear> pack(const TensorView& weight, ThreadPool& pool, const Checkpoint* checkpoint = nullptr);

// Several matrices of the same shape, format and group below each other, as one of parts * rows outputs: those of part p
// are blocks [p * rows / 16, (p + 1) * rows / 16). Errors: as above; unsupported when rows is no multiple of 16 or a part
// differs from the first, naming it.
Result<PackedLinear> pack(std::span<const TensorView* const> parts, ThreadPool& pool,
                          const Checkpoint* checkpoint = nullptr);

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
  int64_t only = 0;  // the first so many outputs, a multiple of 16; 0: all
  int64_t blocks() const { return only > 0 ? only / kBlockOutputs : linear->blocks(); }
};
int64_t blocks(std::span<const MatmulJob> jobs);
void matmul(const Kernels& kernels, std::span<const MatmulJob> jobs, const Activations& activations, int row_begin,
            int row_end, int64_t block_begin, int64_t block_end);

// How many blocks a worker should take at once, so that chunks are neither tiny nor uneven.
int64_t blocks_per_chunk(std::span<const MatmulJob> jobs, int rows, int workers);

}  // namespace drafthorse
