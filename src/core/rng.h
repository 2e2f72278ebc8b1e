#pragma once
// A counter-based random number generator: noise is a function of its key and counter, never of what was drawn before.

#include <array>
#include <cmath>
#include <cstdint>

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

// ln(x) for finite x > 0, as a fixed sequence of double operations (the same bits on every machine; error < 1e-15
// relative to max(1, |ln x|)). x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m - 1) / (m + 1)).
inline double fixed_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return exponent * 0.69314718055994531 + 2 * s * sum;
}

// Standard Gumbel noise from 32 random bits: -ln(-ln(1 - v)), v = (bits + 1/2) / 2^32. Range about -3.14 .. 22.88.
inline double gumbel(uint32_t bits) {
  const double v = (bits + 0.5) * 0x1p-32;
  return -fixed_log(-fixed_log(1 - v));
}
inline constexpr double kLargestGumbel = 22.9;

}  // namespace drafthorse
