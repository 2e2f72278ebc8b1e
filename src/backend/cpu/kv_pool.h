#pragma once
// Memory of all sequences: one reservation of address space cut into blocks. A block holds the keys and values of every
// attention layer and kv head for 64 positions, or a part of the recurrent memory of a sequence. A sequence holds a
// table of blocks of each kind.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/attention.h"
#include "backend/cpu/recurrent.h"

namespace drafthorse::cpu {

// Where layers lie in a block. Of each kv head: keys f16 [head_dim][64], then values f16 [64][head_dim].
struct KvLayout {
  std::vector<size_t> layer_offset;  // bytes; by attention layer
  std::vector<int> head_dim;         // by attention layer
  size_t block_bytes = 0;            // at least one record of the recurrent memory
  RecurrentLayout recurrent;
  bool has_positions() const { return !layer_offset.empty(); }
  // Blocks of `positions` positions; none where no layer keeps keys and values.
  int64_t position_blocks(int64_t positions) const {
    return has_positions() ? (positions + kKvBlock - 1) / kKvBlock : 0;
  }
};
// Error: unsupported when the sizes overflow or a layer's shape has no kernel; names the block.
Result<KvLayout> kv_layout(const Network& network);

class KvPool {
 public:
  // Reserves address space for `blocks` blocks; pages take memory when first written.
  // Error: out_of_memory with the size.
  static Result<std::shared_ptr<KvPool>> create(KvLayout layout, int blocks);
  ~KvPool();
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  int blocks() const { return blocks_; }
  int free_blocks() const { return int(free_.size()); }
  uint64_t bytes() const { return uint64_t(blocks_) * layout_.block_bytes; }
  size_t block_bytes() const { return layout_.block_bytes; }
  const KvLayout& layout() const { return layout_; }

  int take() {  // needs free_blocks() > 0
    const int block = free_.back();
    free_.pop_back();
    return block;
  }
  void give(int block) { free_.push_back(block); }  // never allocates: room for all blocks was made

  // layer: among the attention layers.
  uint16_t* keys(int block, int layer, int kv_head) const {
    const size_t head_halves = size_t(layout_.head_dim[layer]) * kKvBlock * 2;
    uint8_t* start = data_ + size_t(block) * layout_.block_bytes + layout_.layer_offset[layer];
    return reinterpret_cast<uint16_t*>(start) + head_halves * kv_head;
  }
  uint16_t* values(int block, int layer, int kv_head) const {
    return keys(block, layer, kv_head) + size_t(layout_.head_dim[layer]) * kKvBlock;
  }
  float* record(int block, size_t offset) const {
    return reinterpret_cast<float*>(data_ + size_t(block) * layout_.block_bytes + offset);
  }

 private:
  KvPool(KvLayout layout, int blocks, uint8_t* data);
  KvLayout layout_;
  int blocks_;
  uint8_t* data_;
  std::vector<int> free_;  // last in, first out: warm blocks are used again first
};

// Keys and values by position, and the recurrent memory: what it was after committed() positions, and a tape of the
// positions since then.
class KvState final : public State {
 public:
  explicit KvState(std::shared_ptr<KvPool> pool) : pool_(std::move(pool)) {}
  ~KvState() override { release(0); }

  int length() const override { return length_; }
  int earliest() const override { return committed_ > 1 ? committed_ : 1; }
  // Gives back the blocks past `length` that no reservation holds.
  void truncate(int length) override;
  // truncate(0), which is always possible.
  void clear() noexcept {
    length_ = committed_ = 0;
    shrink();
  }

  // Blocks for positions < length() + positions; false (and nothing changed) when the pool has too few.
  bool grow(int positions);
  // grow, and keeps the blocks through truncate until the next reserve.
  bool reserve(int positions);
  // Gives back blocks of positions that neither length() nor the reservation covers.
  void shrink() { release(length_ > reserved_ ? length_ : reserved_); }
  // After grow and a run that left its last `tentative` positions out of the recurrent memory.
  void extend(int positions, int tentative) {
    length_ += positions;
    if (layout().recurrent.blocks > 0) committed_ = length_ - tentative;
  }
  // Positions that the recurrent memory has taken in: 0 (it is to be taken for zeros), or length() less the tape.
  int committed() const { return committed_; }
  int taped() const { return layout().recurrent.blocks > 0 ? length_ - committed_ : 0; }

  const KvLayout& layout() const { return pool_->layout(); }
  const std::vector<int>& blocks() const { return blocks_; }
  int missing_blocks(int positions) const { return missing_positions(positions) + missing_recurrent(positions); }
  int missing_recurrent(int positions) const;

  // The memory of a place of RecurrentLayout; fp32, cache line aligned.
  float* record(size_t place) const {
    const size_t block_bytes = pool_->block_bytes();
    return pool_->record(recurrent_[place / block_bytes], place % block_bytes);
  }

 private:
  int missing_positions(int positions) const;
  void release(int positions);  // keeps the blocks of positions < `positions`
  std::shared_ptr<KvPool> pool_;
  std::vector<int> blocks_, recurrent_;
  int length_ = 0, reserved_ = 0, committed_ = 0;
};

}  // namespace drafthorse::cpu
