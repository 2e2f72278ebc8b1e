#pragma once
// A counter-based random number generator: noise is a function of its key and counter, never of what was drawn before.

#include <array>
#include <cstdint>

#include "core/fixed_double.h"

namespace drafthorse {

// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// The 32 random bits of four neighbouring tokens 4 * block .. 4 * block + 3 at a position.
inline std::array<uint32_t, 4> token_bits(uint64_t seed, uint64_t position, uint32_t block) {
  return philox4x32({block, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Standard Gumbel noise from 32 random bits: -ln(-ln(1 - v)), v = (bits + 1/2) / 2^32. Range about -3.14 .. 22.88.
inline double gumbel(uint32_t bits) {
  const double v = (bits + 0.5) * 0x1p-32;
  return -fixed_log(-fixed_log(1 - v));
}
inline constexpr double kLargestGumbel = 22.9;

}  // namespace drafthorse
