#pragma once
// Small floating-point formats to and from fp32. Portable, branch-light, no table: usable in any loop.
// Decoding is exact. Encoding rounds to nearest, ties to even.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace drafthorse {

// Reads a T at any address; file data has no alignment. Files are little-endian, and so is every supported machine.
template <class T>
T load(const void* bytes) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// IEEE binary16: sign 1, exponent 5 (bias 15), mantissa 10.
inline float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  // Subnormal: magnitude * 2^-24, exact in fp32.
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

inline uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 65520 and more round to infinity
  if (magnitude >= 0x38800000u) {                                              // 2^-14: normal
    const uint32_t odd = magnitude >> 13 & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xFFFu + odd) >> 13));
  }
  // Subnormal: 0.5 has an ulp of 2^-24, so the sum rounds the value to a multiple of it.
  const float sum = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3F000000u));
}

// bfloat16: the upper half of an fp32.
inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// E4M3 (fn): sign 1, exponent 4 (bias 7), mantissa 3; subnormals m * 2^-9; no infinities, 0x7F and 0xFF are NaN.
inline float e4m3_to_float(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t magnitude = bits & 0x7Fu;
  if (magnitude == 0x7Fu) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (magnitude >= 0x08u) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-9f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// E8M0: 2^(bits - 127). 0xFF is NaN in the OCP MX specification.
inline float e8m0_to_float(uint8_t bits) {
  if (bits == 0xFFu) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(bits == 0 ? 0x00400000u : static_cast<uint32_t>(bits) << 23);
}

// E2M1: codes 0..7 are 0, 0.5, 1, 1.5, 2, 3, 4, 6; bit 3 is the sign. Only the low 4 bits are read.
inline float e2m1_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 8u) << 28;
  const uint32_t magnitude = code & 7u;
  const uint32_t value = magnitude == 0 ? 0u : magnitude == 1 ? 0x3F000000u : ((magnitude << 22) + (126u << 23));
  return std::bit_cast<float>(sign | value);
}

}  // namespace drafthorse
