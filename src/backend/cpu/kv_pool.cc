#include "backend/cpu/kv_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace drafthorse::cpu {

Result<KvLayout> kv_layout(const Network& network) {
  KvLayout layout;
  for (size_t i = 0; i < network.blocks.size(); ++i) {
    const Attention& attention = std::get<Attention>(network.blocks[i].mixer);
    size_t bytes = 0, halves = size_t(2) * kKvBlock * sizeof(uint16_t);
    if (attention.kv_heads <= 0 || attention.head_dim <= 0 ||
        __builtin_mul_overflow(size_t(attention.kv_heads), size_t(attention.head_dim), &bytes) ||
        __builtin_mul_overflow(bytes, halves, &bytes) || bytes > (size_t(1) << 40)) {
      return Error{
          ErrorKind::unsupported,
          fmt::format("block {}: {} kv heads of {} do not make a KV cache", i, attention.kv_heads, attention.head_dim),
          ""};
    }
    layout.layer_offset.push_back(layout.block_bytes);
    layout.head_dim.push_back(attention.head_dim);
    layout.block_bytes += (bytes + 63) / 64 * 64;
  }
  return layout;
}

Result<std::shared_ptr<KvPool>> KvPool::create(KvLayout layout, int blocks) {
  size_t bytes = 0;
  void* data = MAP_FAILED;
  if (!__builtin_mul_overflow(layout.block_bytes, size_t(blocks), &bytes) && bytes > 0) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (data == MAP_FAILED) {
    return Error{ErrorKind::out_of_memory,
                 fmt::format("no address space for {} KV blocks of {} bytes ({}); ask for a shorter context", blocks,
                             layout.block_bytes, std::strerror(errno)),
                 "context"};
  }
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return std::shared_ptr<KvPool>(new KvPool(std::move(layout), blocks, static_cast<uint8_t*>(data)));
}

KvPool::KvPool(KvLayout layout, int blocks, uint8_t* data) : layout_(std::move(layout)), blocks_(blocks), data_(data) {
  free_.reserve(blocks);
  for (int b = blocks; b-- > 0;) free_.push_back(b);
}

KvPool::~KvPool() { munmap(data_, bytes()); }

int KvState::missing_blocks(int positions) const {
  const int64_t needed = (int64_t(length_) + positions + kKvBlock - 1) / kKvBlock;
  return int(std::max<int64_t>(needed - int64_t(blocks_.size()), 0));
}

bool KvState::grow(int positions) {
  const int missing = missing_blocks(positions);
  if (missing > pool_->free_blocks()) return false;
  blocks_.reserve(blocks_.size() + missing);
  for (int i = 0; i < missing; ++i) blocks_.push_back(pool_->take());
  return true;
}

bool KvState::reserve(int positions) {
  if (!grow(positions)) return false;
  reserved_ = length_ + positions;
  shrink();
  return true;
}

void KvState::truncate(int length) {
  if (length < 0 || length > length_) throw std::logic_error("truncate beyond the state's length");
  length_ = length;
  shrink();
}

void KvState::release(int positions) {
  const size_t keep = (size_t(positions) + kKvBlock - 1) / kKvBlock;
  while (blocks_.size() > keep) {
    pool_->give(blocks_.back());
    blocks_.pop_back();
  }
}

}  // namespace drafthorse::cpu
