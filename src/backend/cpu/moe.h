#pragma once
// A mixture of experts over the rows of a batch: rows are grouped by expert, so that each expert's weights are read
// once, and all experts of a step (the shared one too) run in one parallel region for gate and up and one for down.

#include <map>
#include <span>
#include <vector>

#include "backend/cpu/packed_network.h"
#include "backend/cpu/row_kernels.h"
#include "core/thread_pool.h"

namespace drafthorse::cpu {

class Mixture {
 public:
  Mixture(const Kernels& kernels, const RowKernels& row_kernels, ThreadPool& pool)
      : kernels_(kernels), row_kernels_(row_kernels), pool_(pool) {}

  // Room for `rows` rows of every mixture of the network; no other function allocates.
  void make_room(const PackedNetwork& network, int rows);
  // x: normed rows, quantised. Then combine gives each row's sum.
  void run(const PackedMoe& layer, const Activations& x);
  // y [hidden] = the weighted sum of a row's experts in rank order, then the shared expert. Any thread.
  void combine(const PackedMoe& layer, int row, float* y);
  size_t bytes() const { return bytes_; }

 private:
  // A row's choice of one expert; slot: its place among all choices, ordered by expert.
  struct Choice {
    int expert = 0, slot = 0;
    float weight = 0;
  };
  // Blocks [begin, end) of an expert's outputs; expert -1: the shared one's.
  struct Task {
    int expert;
    int64_t begin, end;
  };

  void choose(const PackedMoe& layer, int row);
  void group_by_expert(const PackedMoe& layer, int rows);
  // Tasks for the experts with rows and for the shared expert; `blocks` of `bytes` each.
  void plan(const PackedMoe& layer, int rows, int64_t blocks, int64_t bytes, int64_t shared_blocks,
            int64_t shared_bytes);
  void gate_and_up(const PackedMoe& layer, const Activations& x);
  void activate(const PackedMlp& shared, int rows, int64_t begin, int64_t end);
  void quantise(const PackedMoe& layer, int rows);
  void down(const PackedMoe& layer, int rows);
  int slots(const Task& task) const { return first_[task.expert + 1] - first_[task.expert]; }

  const Kernels& kernels_;
  const RowKernels& row_kernels_;
  ThreadPool& pool_;
  int capacity_ = 0;
  size_t bytes_ = 0;
  std::vector<float> router_, shared_gate_;                // [rows, experts], [rows]
  std::vector<Choice> choices_;                            // [rows, top_k], best first
  std::vector<int> first_;                                 // by expert: its first slot; then their number
  std::vector<int> next_;                                  // by expert, while slots are dealt
  std::vector<int> row_of_;                                // by slot
  std::vector<float> inner_, outer_;                       // [slots, 2 * inner], [slots, hidden]
  std::vector<float> shared_in_, shared_up_, shared_out_;  // [rows, shared inner] twice, [rows, hidden]
  // By number of inputs: the slots' inputs, the slots' inner rows, the shared expert's inner rows.
  std::map<int64_t, Activations> gathered_, inner_rows_, shared_rows_;
  std::vector<Task> tasks_;
};

}  // namespace drafthorse::cpu
