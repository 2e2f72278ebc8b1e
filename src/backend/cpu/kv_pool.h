#pragma once
// KV memory of all sequences: one reservation of address space cut into blocks of 64 positions. A block holds the
// keys and values of every layer and kv head for its positions; a sequence holds a table of blocks.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/attention.h"

namespace drafthorse::cpu {

// Where layers lie in a block. Of each kv head: keys f16 [head_dim][64], then values f16 [64][head_dim].
struct KvLayout {
  std::vector<size_t> layer_offset;  // bytes
  std::vector<int> head_dim;         // by layer
  size_t block_bytes = 0;
};
// Error: unsupported when the sizes overflow.
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

  int take() {  // needs free_blocks() > 0
    const int block = free_.back();
    free_.pop_back();
    return block;
  }
  void give(int block) { free_.push_back(block); }  // never allocates: room for all blocks was made

  uint16_t* keys(int block, int layer, int kv_head) const {
    const size_t head_halves = size_t(layout_.head_dim[layer]) * kKvBlock * 2;
    uint8_t* start = data_ + size_t(block) * layout_.block_bytes + layout_.layer_offset[layer];
    return reinterpret_cast<uint16_t*>(start) + head_halves * kv_head;
  }
  uint16_t* values(int block, int layer, int kv_head) const {
    return keys(block, layer, kv_head) + size_t(layout_.head_dim[layer]) * kKvBlock;
  }

 private:
  KvPool(KvLayout layout, int blocks, uint8_t* data);
  KvLayout layout_;
  int blocks_;
  uint8_t* data_;
  std::vector<int> free_;  // last in, first out: warm blocks are used again first
};

class KvState final : public State {
 public:
  explicit KvState(std::shared_ptr<KvPool> pool) : pool_(std::move(pool)) {}
  ~KvState() override { release(0); }

  int length() const override { return length_; }
  // Gives back the blocks past `length` that no reservation holds.
  void truncate(int length) override;

  // Blocks for positions < length() + positions; false (and nothing changed) when the pool has too few.
  bool grow(int positions);
  // grow, and keeps the blocks through truncate until the next reserve.
  bool reserve(int positions);
  // Gives back blocks of positions that neither length() nor the reservation covers.
  void shrink() { release(std::max(length_, reserved_)); }
  void extend(int positions) { length_ += positions; }  // after grow
  const std::vector<int>& blocks() const { return blocks_; }
  int missing_blocks(int positions) const;

 private:
  void release(int positions);  // keeps the blocks of positions < `positions`
  std::shared_ptr<KvPool> pool_;
  std::vector<int> blocks_;
  int length_ = 0, reserved_ = 0;
};

}  // namespace drafthorse::cpu
