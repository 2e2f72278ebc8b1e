#include "backend/cpu/matmul.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "backend/cpu/kernels.h"

namespace drafthorse {

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> found{&portable_kernels()};
  for (const Kernels* kernels : {neon_kernels(), avx2_kernels(), avx512_kernels()}) {
    if (kernels) found.push_back(kernels);
  }
  return found;
}

std::string_view isa_name(const Kernels& kernels) { return kernels.isa; }

Result<const Kernels*> select_kernels(std::string_view isa) {
  std::vector<const Kernels*> available = available_kernels();
  if (isa == "auto") return available.back();
  std::string names;
  for (const Kernels* kernels : available) {
    if (kernels->isa == isa) return kernels;
    names += names.empty() ? "" : ", ";
    names += kernels->isa;
  }
  bool known = isa == "portable" || isa == "avx2" || isa == "avx512" || isa == "neon";
  return Error{known ? ErrorKind::unsupported : ErrorKind::invalid_argument,
               fmt::format("instruction set \"{}\" {}; this machine has: auto, {}", isa,
                           known ? "is not available here" : "is unknown", names),
               "isa"};
}

PageBuffer::PageBuffer(size_t bytes) : size_(bytes) {
  constexpr size_t kHuge = 2 << 20;
  if (bytes == 0) return;
  const size_t unit = bytes >= kHuge ? kHuge : 4096;
  if (bytes > SIZE_MAX - unit) throw std::bad_alloc();
  mapped_ = (bytes + unit - 1) / unit * unit;
  void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (unit == kHuge)
    madvise(p, mapped_, MADV_HUGEPAGE);  // advice: a system without huge pages says no, and that is fine
#endif
  data_ = static_cast<uint8_t*>(p);
}

PageBuffer::~PageBuffer() {
  if (data_) munmap(data_, mapped_);
}

PageBuffer::PageBuffer(PageBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Activations::Activations(int64_t inputs, int max_rows, ActivationKinds kinds)
    : inputs_(inputs), max_rows_(max_rows), kinds_(kinds) {
  const size_t cells = static_cast<size_t>(segments()) * max_rows + kSpareRows;
  const size_t floats = kinds.has(ActivationKind::f32) ? cells * kSegment * sizeof(float) : 0;
  const size_t group32 = kinds.has(ActivationKind::int8_group32) ? cells * sizeof(QuantisedSegment) : 0;
  const size_t group64 = kinds.has(ActivationKind::int8_group64) ? cells * sizeof(QuantisedSegment) : 0;
  data_ = PageBuffer(floats + group32 + group64);
  if (floats) floats_ = reinterpret_cast<float*>(data_.data());
  if (group32) group32_ = reinterpret_cast<QuantisedSegment*>(data_.data() + floats);
  if (group64) group64_ = reinterpret_cast<QuantisedSegment*>(data_.data() + floats + group32);
}

void Activations::resize(int rows) {
  if (rows < 0 || rows > max_rows_)
    throw std::logic_error(fmt::format("Activations: {} rows, room for {}", rows, max_rows_));
  rows_ = rows;
}

void Activations::set_row(const Kernels& kernels, int row, const float* x) {
  for (int64_t s = 0; s < segments(); s++) {
    const int n = static_cast<int>(std::min<int64_t>(kSegment, inputs_ - s * kSegment));
    const float* from = x + s * kSegment;
    const int64_t cell = s * rows_ + row;
    if (floats_) std::memcpy(floats_ + cell * kSegment, from, n * sizeof(float));
    if (group32_) kernels.quantise(from, n, 32, group32_[cell]);
    if (group64_) kernels.quantise(from, n, 64, group64_[cell]);
  }
}

void copy_row(Activations& to, int row, const Activations& from, int from_row) {
  if (to.inputs() != from.inputs()) throw std::logic_error("copy_row: rows of other inputs");
  for (int64_t s = 0; s < to.segments(); s++) {
    // `to` is the caller's to change; its accessors are const for the kernels' sake.
    if (to.has(ActivationKind::f32)) {
      std::memcpy(const_cast<float*>(to.floats(s, row)), from.floats(s, from_row), kSegment * sizeof(float));
    }
    for (ActivationKind kind : {ActivationKind::int8_group32, ActivationKind::int8_group64}) {
      if (!to.has(kind)) continue;
      *const_cast<QuantisedSegment*>(to.quantised(kind, s, row)) = *from.quantised(kind, s, from_row);
    }
  }
}

void matmul(const Kernels& kernels, const PackedLinear& linear, const Activations& activations, int row_begin,
            int row_end, float* y, int64_t ldy, int64_t block_begin, int64_t block_end) {
  if (linear.inputs != activations.inputs() || !activations.has(linear.activations) || row_begin < 0 ||
      row_end > activations.rows() || block_begin < 0 || block_end > linear.blocks()) {
    throw std::logic_error("matmul: activations, rows or blocks do not fit the linear");
  }
  if (row_begin >= row_end || block_begin >= block_end) return;
  kernels.matmul[static_cast<int>(linear.layout)](linear, activations, row_begin, row_end, y, ldy, block_begin,
                                                  block_end);
}

int64_t blocks(std::span<const MatmulJob> jobs) {
  int64_t total = 0;
  for (const MatmulJob& job : jobs) total += job.blocks();
  return total;
}

void matmul(const Kernels& kernels, std::span<const MatmulJob> jobs, const Activations& activations, int row_begin,
            int row_end, int64_t block_begin, int64_t block_end) {
  int64_t first = 0;
  for (const MatmulJob& job : jobs) {
    const int64_t count = job.blocks();
    const int64_t begin = std::max(block_begin - first, int64_t{0}), end = std::min(block_end - first, count);
    if (begin < end) matmul(kernels, *job.linear, activations, row_begin, row_end, job.y, job.ldy, begin, end);
    first += count;
  }
}

int64_t blocks_per_chunk(std::span<const MatmulJob> jobs, int rows, int workers) {
  const int64_t total = blocks(jobs);
  int64_t bytes = 0;
  for (const MatmulJob& job : jobs) bytes += job.blocks() * job.linear->block_bytes;
  // About 10 microseconds of one core: long enough to hide taking a chunk, short enough to even out what is left.
  constexpr int64_t kBytes = 128 << 10;
  const int64_t cost = std::max<int64_t>(1, rows / 4), by_cost = total * kBytes / std::max<int64_t>(1, bytes * cost);
  const int64_t even = std::max<int64_t>(1, total / (4 * std::max(workers, 1)));
  return std::clamp<int64_t>(by_cost, rows > 16 ? std::min<int64_t>(4, even) : 1, even);
}

}  // namespace drafthorse
