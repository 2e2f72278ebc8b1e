#include "backend/cpu/attend.h"

#include <algorithm>
#include <cstring>

namespace drafthorse::cpu {
namespace {

// Floats that partial results may take; beyond it tiles stay whole, which is slower on many cores, not wrong.
constexpr int64_t kMaxPartialFloats = 16 << 20;

int first_seen(const AttentionShape& shape, int position) {
  return shape.window > 0 ? std::max(0, position - shape.window + 1) : 0;
}

}  // namespace

void Attend::add_tiles(const AttentionShape& shape, const SequenceRows& sequence, int kv_head) {
  const int group = shape.heads / shape.kv_heads;
  const int total = sequence.rows * group;
  for (int first = 0; first < total; first += kTileQueries) {
    const int queries = std::min(kTileQueries, total - first);
    const int low = first_seen(shape, sequence.first_position + first / group);
    const int high = sequence.first_position + (first + queries - 1) / group;
    const int begin = low / kSoftmaxSegment, end = high / kSoftmaxSegment + 1;
    tiles_.push_back({&sequence, kv_head, first, queries, begin, end - begin, -1, 1});
  }
}

void Attend::plan(const AttentionShape& shape, std::span<const SequenceRows> sequences) {
  tiles_.clear();
  tasks_.clear();
  for (const SequenceRows& sequence : sequences) {
    for (int h = 0; h < shape.kv_heads; ++h) add_tiles(shape, sequence, h);
  }
  split_tiles(shape);
  for (int t = 0; t < int(tiles_.size()); ++t) {
    const Tile& tile = tiles_[t];
    for (int p = 0; p < tile.parts; ++p) {
      const int begin = int64_t(tile.segments) * p / tile.parts, end = int64_t(tile.segments) * (p + 1) / tile.parts;
      tasks_.push_back({t, tile.first_segment + begin, end - begin});
    }
  }
}

// With few tiles for the workers, spreads the segments of the long ones over tasks.
void Attend::split_tiles(const AttentionShape& shape) {
  const int workers = pool_.workers();
  if (workers == 1 || int(tiles_.size()) >= 4 * workers) return;
  int64_t segments = 0, slots = 0;
  for (const Tile& tile : tiles_) segments += tile.segments;
  const int64_t per_task = std::max<int64_t>(1, segments / (4 * workers));
  for (Tile& tile : tiles_) {
    const int64_t wanted = int64_t(tile.segments) * tile.queries;
    if (tile.segments <= per_task || (slots + wanted) * shape.head_dim > kMaxPartialFloats) continue;
    tile.parts = int((tile.segments + per_task - 1) / per_task);
    tile.partial = slots;
    slots += wanted;
  }
  if (int64_t(partials_.size()) < slots) partials_.resize(slots);
  if (int64_t(partial_out_.size()) < slots * shape.head_dim) partial_out_.resize(slots * shape.head_dim);
  for (int64_t s = 0; s < slots; ++s) partials_[s].out = &partial_out_[s * shape.head_dim];
  if (open_parts_size_ < tiles_.size()) {
    open_parts_ = std::make_unique<std::atomic<int>[]>(tiles_.size());
    open_parts_size_ = tiles_.size();
  }
  for (size_t t = 0; t < tiles_.size(); ++t) open_parts_[t].store(tiles_[t].parts, std::memory_order_relaxed);
}

// slots[n].out is where query n of the tile wants its result; a query that does not see the segment gets sum 0.
void Attend::segment(int layer, const AttentionShape& shape, const Tile& tile, int segment, const float* q,
                     Softmax* slots) {
  const int group = shape.heads / shape.kv_heads;
  const SequenceRows& sequence = *tile.sequence;
  const int start = segment * kSoftmaxSegment;
  SegmentTask task;
  task.head_dim = shape.head_dim;
  task.softcap = shape.softcap;
  const std::vector<int>& blocks = sequence.state->blocks();
  for (int b = 0; b < kSoftmaxBlocks; ++b) {
    const size_t index = size_t(segment) * kSoftmaxBlocks + b;
    if (index >= blocks.size()) break;
    task.keys[b] = kv_.keys(blocks[index], layer, tile.kv_head);
    task.values[b] = kv_.values(blocks[index], layer, tile.kv_head);
  }
  const size_t next_segment = size_t(segment + 1) * kSoftmaxBlocks;
  if (next_segment < blocks.size()) task.after = kv_.keys(blocks[next_segment], layer, tile.kv_head);
  Softmax results[kTileQueries];
  int query_of[kTileQueries];
  for (int n = 0; n < tile.queries; ++n) {
    const int row = (tile.first_query + n) / group, head = (tile.first_query + n) % group;
    const int position = sequence.first_position + row;
    const int first = std::max(first_seen(shape, position) - start, 0);
    const int last = std::min(position + 1 - start, kSoftmaxSegment);
    slots[n].sum = 0;
    if (first >= last) continue;
    const int64_t at = int64_t(sequence.first_row + row) * shape.heads + tile.kv_head * group + head;
    const int i = task.queries++;
    task.q[i] = q + at * shape.head_dim;
    task.first[i] = first;
    task.last[i] = last;
    results[i].out = slots[n].out;
    query_of[i] = n;
  }
  kernels_.segment(task, results);
  for (int i = 0; i < task.queries; ++i) slots[query_of[i]] = results[i];
}

namespace {

// The output vector of a tile's query.
float* output(const AttentionShape& shape, const SequenceRows& sequence, int kv_head, int query, float* out) {
  const int group = shape.heads / shape.kv_heads;
  const int64_t at = int64_t(sequence.first_row + query / group) * shape.heads + kv_head * group + query % group;
  return out + at * shape.head_dim;
}

}  // namespace

void Attend::whole(int layer, const AttentionShape& shape, const Tile& tile, Scratch& scratch, const float* q,
                   float* out) {
  Softmax state[kTileQueries], next[kTileQueries];
  for (int n = 0; n < tile.queries; ++n) {
    state[n].out = output(shape, *tile.sequence, tile.kv_head, tile.first_query + n, out);
    next[n].out = scratch.out.data() + size_t(n) * shape.head_dim;
  }
  for (int s = tile.first_segment; s < tile.first_segment + tile.segments; ++s) {
    segment(layer, shape, tile, s, q, next);
    for (int n = 0; n < tile.queries; ++n) {
      if (next[n].sum == 0) continue;
      if (state[n].sum == 0) {
        state[n].max = next[n].max, state[n].sum = next[n].sum;
        std::memcpy(state[n].out, next[n].out, sizeof(float) * shape.head_dim);
      } else {
        kernels_.merge(next[n], state[n], shape.head_dim);
      }
    }
  }
  for (int n = 0; n < tile.queries; ++n) kernels_.finish(state[n], shape.head_dim);
}

// Some segments of a tile; whoever completes the tile merges all of them, in order.
void Attend::part(int layer, const AttentionShape& shape, const Task& task, const float* q, float* out) {
  const Tile& tile = tiles_[task.tile];
  Softmax* slots = &partials_[tile.partial];
  for (int s = task.first_segment; s < task.first_segment + task.segments; ++s) {
    segment(layer, shape, tile, s, q, slots + int64_t(s - tile.first_segment) * tile.queries);
  }
  if (open_parts_[task.tile].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  for (int n = 0; n < tile.queries; ++n) {
    Softmax state;
    state.out = output(shape, *tile.sequence, tile.kv_head, tile.first_query + n, out);
    for (int s = 0; s < tile.segments; ++s) {
      const Softmax& next = slots[int64_t(s) * tile.queries + n];
      if (next.sum == 0) continue;
      if (state.sum == 0) {
        state.max = next.max, state.sum = next.sum;
        std::memcpy(state.out, next.out, sizeof(float) * shape.head_dim);
      } else {
        kernels_.merge(next, state, shape.head_dim);
      }
    }
    kernels_.finish(state, shape.head_dim);
  }
}

void Attend::run(int layer, const AttentionShape& shape, std::span<const SequenceRows> sequences, const float* q,
                 float* out) {
  plan(shape, sequences);
  if (scratch_.size() < size_t(pool_.workers())) scratch_.resize(pool_.workers());
  for (Scratch& scratch : scratch_) {
    const size_t wanted = size_t(kTileQueries) * shape.head_dim;
    if (scratch.out.size() < wanted) scratch.out.resize(wanted);
  }
  pool_.parallel_for(int64_t(tasks_.size()), 1, [&](int worker, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const Tile& tile = tiles_[tasks_[t].tile];
      if (tile.parts == 1) {
        whole(layer, shape, tile, scratch_[worker], q, out);
      } else {
        part(layer, shape, tasks_[t], q, out);
      }
    }
  });
}

size_t Attend::bytes() const {
  size_t bytes = partials_.capacity() * sizeof(Softmax) + partial_out_.capacity() * sizeof(float);
  for (const Scratch& scratch : scratch_) bytes += scratch.out.capacity() * sizeof(float);
  return bytes;
}

}  // namespace drafthorse::cpu
