#pragma once
// A map from 64-bit keys to 64-bit values for the tokeniser's hot look-ups: open addressing, filled once, then only
// read.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace drafthorse {

inline uint64_t mix64(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15ull;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ull;
  return x ^ x >> 32;
}

class FlatMap {
 public:
  static constexpr uint64_t kNoKey = ~0ull;  // not usable as a key

  explicit FlatMap(size_t expected = 0) : slots_(std::bit_ceil(expected * 2 + 8), {kNoKey, 0}) {}

  // Adds `key` unless it is there already; true when it was added.
  bool insert(uint64_t key, uint64_t value) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    for (size_t i = mix64(key) & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].first == key) return false;
      if (slots_[i].first != kNoKey) continue;
      slots_[i] = {key, value};
      ++size_;
      return true;
    }
  }
  const uint64_t* find(uint64_t key) const {
    for (size_t i = mix64(key) & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].first == key) return &slots_[i].second;
      if (slots_[i].first == kNoKey) return nullptr;
    }
  }
  size_t size() const { return size_; }

 private:
  void grow() {
    FlatMap larger(slots_.size());
    for (const auto& [key, value] : slots_)
      if (key != kNoKey) larger.insert(key, value);
    *this = std::move(larger);
  }

  std::vector<std::pair<uint64_t, uint64_t>> slots_;
  size_t size_ = 0;
};

}  // namespace drafthorse
