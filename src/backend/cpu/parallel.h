#pragma once
// Rows and matrix products over the pool.

#include <algorithm>
#include <span>

#include "backend/cpu/matmul.h"
#include "core/thread_pool.h"

namespace drafthorse::cpu {

// Work on rows smaller than this many elements is done by one thread: a region costs more.
inline constexpr int64_t kSerialElements = 1 << 14;

// fn(row) for rows of `width` elements.
template <class Function>
void for_rows(ThreadPool& pool, int rows, int64_t width, Function&& fn) {
  if (pool.workers() == 1 || rows * width <= kSerialElements) {
    for (int r = 0; r < rows; ++r) fn(r);
    return;
  }
  const int64_t chunk = std::max<int64_t>(1, rows / (4 * pool.workers()));
  pool.parallel_for(rows, chunk, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) fn(int(r));
  });
}

// All rows of the activations times all jobs, in one region.
inline void multiply(const Kernels& kernels, ThreadPool& pool, std::span<const MatmulJob> jobs,
                     const Activations& activations) {
  const int rows = activations.rows();
  pool.parallel_for(blocks(jobs), blocks_per_chunk(jobs, rows, pool.workers()),
                    [&](int, int64_t begin, int64_t end) { matmul(kernels, jobs, activations, 0, rows, begin, end); });
}

}  // namespace drafthorse::cpu
