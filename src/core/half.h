#pragma once
// IEEE half precision <-> fp32 in integer operations: the bits of the F16C instructions (round to nearest even).

#include <bit>
#include <cstdint>

namespace drafthorse {

// The exact value; a NaN stays a (quiet) NaN.
[[gnu::always_inline]] inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16;
  const uint32_t magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00) {  // infinity, NaN
    const uint32_t quiet = magnitude > 0x7c00 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (magnitude & 0x3ff) << 13);
  }
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float value = float(magnitude) * 0x1p-24f;  // zero and subnormals
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// Rounded to nearest even; above 65504 + 16 infinity.
[[gnu::always_inline]] inline uint16_t float_to_half(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 and more
  if (magnitude >= 0x38800000) {                                // normal: 2^-14 and more
    const uint32_t odd = magnitude >> 13 & 1;
    return uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
  }
  // Subnormal: adding 0.5 puts the multiple of 2^-24, rounded by the addition itself, into the low bits.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
}

}  // namespace drafthorse
