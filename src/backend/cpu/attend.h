#pragma once
// Attention of one layer over all sequences of a batch, spread over the pool.

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/kv_pool.h"
#include "backend/cpu/row_kernels.h"
#include "core/thread_pool.h"

namespace drafthorse::cpu {

// Rows of one sequence in a batch: rows [first_row, first_row + rows) at positions first_position, ...
struct SequenceRows {
  const KvState* state = nullptr;
  int first_position = 0, first_row = 0, rows = 0;
  // For recurrent parts: rows of the tape to replay before, rows at the end to put on it, and whether the recurrent memory
  // is still nothing (zeros, whatever its bytes are).
  int replay = 0, tentative = 0;
  bool fresh = false;
};

struct AttentionShape {
  int heads = 0, kv_heads = 0, head_dim = 0;
  int window = 0;  // 0: all positions
  float softcap = 0;
};

class Attend {
 public:
  Attend(const RowKernels& kernels, ThreadPool& pool, const KvPool& kv) : kernels_(kernels), pool_(pool), kv_(kv) {}

  // q, out: [rows, heads * head_dim]; q has rope and scale applied. The keys and values of all rows are in the cache.
  void run(int layer, const AttentionShape& shape, std::span<const SequenceRows> sequences, const float* q, float* out);
  size_t bytes() const;

 private:
  // Some queries of one kv head of one sequence; query n is row n / group, head n % group of the kv head.
  struct Tile {
    const SequenceRows* sequence;
    int kv_head, first_query, queries;
    int first_segment, segments;
    int64_t partial;  // first slot of partials_, when its segments are spread over tasks
    int parts;
  };
  struct Task {
    int tile, first_segment, segments;
  };
  struct Scratch {
    std::vector<float> out;  // [kTileQueries, head_dim]
  };

  void plan(const AttentionShape& shape, std::span<const SequenceRows> sequences);
  void add_tiles(const AttentionShape& shape, const SequenceRows& sequence, int kv_head);
  void split_tiles(const AttentionShape& shape);
  void whole(int layer, const AttentionShape& shape, const Tile& tile, Scratch& scratch, const float* q, float* out);
  void part(int layer, const AttentionShape& shape, const Task& task, const float* q, float* out);
  void segment(int layer, const AttentionShape& shape, const Tile& tile, int segment, const float* q, Softmax* slots);

  const RowKernels& kernels_;
  ThreadPool& pool_;
  const KvPool& kv_;
  std::vector<Tile> tiles_;
  std::vector<Task> tasks_;
  std::vector<Softmax> partials_;                   // [segment of the tile][query]
  std::vector<float> partial_out_;                  // [slot, head_dim]
  std::unique_ptr<std::atomic<int>[]> open_parts_;  // by tile: parts not yet done
  size_t open_parts_size_ = 0;
  std::vector<Scratch> scratch_;  // by worker
};

}  // namespace drafthorse::cpu
