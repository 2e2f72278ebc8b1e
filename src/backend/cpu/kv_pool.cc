#include "backend/cpu/kv_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace drafthorse::cpu {
namespace {

size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Keys and values of one layer in a block. Error: unsupported when that is nonsense.
Result<size_t> layer_bytes(const Attention& attention) {
  size_t bytes = 0, halves = size_t(2) * kKvBlock * sizeof(uint16_t);
  if (attention.kv_heads <= 0 || attention.head_dim <= 0 ||
      __builtin_mul_overflow(size_t(attention.kv_heads), size_t(attention.head_dim), &bytes) ||
      __builtin_mul_overflow(bytes, halves, &bytes) || bytes > (size_t(1) << 40)) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{} kv heads of {} do not make a KV cache", attention.kv_heads, attention.head_dim), ""};
  }
  return round_up(bytes);
}

}  // namespace

Result<KvLayout> kv_layout(const Network& network) {
  KvLayout layout;
  std::vector<DeltaShape> shapes;
  size_t record = 0;
  for (size_t i = 0; i < network.blocks.size(); ++i) {
    if (const auto* delta = std::get_if<DeltaNet>(&network.blocks[i].mixer)) {
      Result<DeltaShape> shape = delta_shape(*delta);
      if (!shape) return shape.error().with_context(fmt::format("block {}", i));
      shapes.push_back(*shape);
      record = std::max(record, round_up(largest_record(*shape)));
      continue;
    }
    const Attention& attention = std::get<Attention>(network.blocks[i].mixer);
    Result<size_t> bytes = layer_bytes(attention);
    if (!bytes) return bytes.error().with_context(fmt::format("block {}", i));
    layout.layer_offset.push_back(layout.block_bytes);
    layout.head_dim.push_back(attention.head_dim);
    layout.block_bytes += *bytes;
  }
  layout.block_bytes = std::max(layout.block_bytes, record);
  if (shapes.empty()) return layout;
  Result<RecurrentLayout> recurrent = recurrent_layout(shapes, layout.block_bytes);
  if (!recurrent) return recurrent.error();
  layout.recurrent = std::move(*recurrent);
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

int KvState::missing_positions(int positions) const {
  const int64_t needed = layout().position_blocks(int64_t(length_) + positions);
  return int(std::max<int64_t>(needed - int64_t(blocks_.size()), 0));
}

int KvState::missing_recurrent(int positions) const {
  return length_ + positions > 0 ? layout().recurrent.blocks - int(recurrent_.size()) : 0;
}

bool KvState::grow(int positions) {
  const int missing = missing_positions(positions), recurrent = missing_recurrent(positions);
  if (missing + recurrent > pool_->free_blocks()) return false;
  blocks_.reserve(blocks_.size() + missing);
  recurrent_.reserve(recurrent_.size() + recurrent);
  for (int i = 0; i < missing; ++i) blocks_.push_back(pool_->take());
  for (int i = 0; i < recurrent; ++i) recurrent_.push_back(pool_->take());
  return true;
}

bool KvState::reserve(int positions) {
  if (!grow(positions)) return false;
  // Nothing asked for an empty state is nothing kept.
  reserved_ = positions > 0 ? length_ + positions : 0;
  shrink();
  return true;
}

void KvState::truncate(int length) {
  if (length < 0 || length > length_ || (length > 0 && length < committed_)) {
    throw std::logic_error(
        fmt::format("truncate to {}: the state holds {} positions and goes back to {}", length, length_, earliest()));
  }
  if (length == 0) return clear();
  length_ = length;
  shrink();
}

void KvState::release(int positions) {
  const size_t keep = size_t(layout().position_blocks(positions));
  auto give = [&](std::vector<int>& blocks, size_t kept) {
    while (blocks.size() > kept) {
      pool_->give(blocks.back());
      blocks.pop_back();
    }
  };
  give(blocks_, keep);
  if (positions == 0) give(recurrent_, 0);
}

}  // namespace drafthorse::cpu
