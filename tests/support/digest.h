#pragma once
// A short name for many bits, to hold results of one machine against those of another.

#include <cstdint>
#include <cstring>
#include <span>

namespace drafthorse::test {

// FNV-1a of the bits of x, continued from `seed`.
inline uint64_t digest(std::span<const float> x, uint64_t seed = 0xcbf29ce484222325) {
  uint64_t hash = seed;
  for (const float value : x) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; ++i) hash = (hash ^ (bits >> 8 * i & 0xff)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace drafthorse::test
