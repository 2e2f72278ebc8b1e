#pragma once
// The gated delta rule of one layer over all sequences of a batch, between its matrix products: convolution, gates,
// recurrence and gated norm. A task is one key head of one sequence, with its value heads.

#include <span>
#include <vector>

#include "backend/cpu/attend.h"
#include "backend/cpu/packed_network.h"
#include "backend/cpu/row_kernels.h"
#include "core/thread_pool.h"

namespace drafthorse::cpu {

class DeltaMixer {
 public:
  DeltaMixer(const RowKernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // Results of the layer's products, rows of the batch: u [rows, channels], b and a [rows, value_heads],
  // z [rows, value_heads * value_dim]. y: room, as z.
  struct RowsOf {
    const float *u, *b, *a;
    float *z, *y;
  };
  // z becomes the gated output. Advances every sequence's recurrent memory.
  void run(const PackedDelta& layer, std::span<const SequenceRows> sequences, const RowsOf& rows);
  size_t bytes() const;

 private:
  // Of one worker.
  struct Scratch {
    std::vector<float> q, k;     // [chunk rows][key_dim]
    std::vector<float> v;        // [chunk rows][value heads of a key head][value_dim]
    std::vector<float> g, beta;  // [chunk rows][value heads of a key head]
    std::vector<float> delta;    // [tentative rows], as v
    std::vector<float> stripe;   // [key_dim][16]
  };
  struct Task;
  void make_scratch(const DeltaShape& shape);

  const RowKernels& kernels_;
  ThreadPool& pool_;
  std::vector<Scratch> scratch_;
};

}  // namespace drafthorse::cpu
