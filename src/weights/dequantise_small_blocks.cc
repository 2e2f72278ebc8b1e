// GGUF blocks of 32 elements. Each comment gives the block's bytes; f16 and u32 fields are little-endian.
// In the 4-bit types byte j holds element j in its low nibble and element j + 16 in its high nibble.

#include <array>

#include "weights/dequantise_rows.h"
#include "weights/float_formats.h"

namespace drafthorse {
namespace {

uint8_t at(const std::byte* bytes, int i) { return static_cast<uint8_t>(bytes[i]); }
float f16_at(const std::byte* bytes) { return f16_to_float(load<uint16_t>(bytes)); }

// {f16 d; u8 qs[16]}: d * (q - 8)
void decode_q4_0(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (int j = 0; j < 16; ++j) {
    const uint8_t q = at(block + 2, j);
    out[j] = d * static_cast<float>((q & 15) - 8);
    out[j + 16] = d * static_cast<float>((q >> 4) - 8);
  }
}

// {f16 d; f16 m; u8 qs[16]}: d * q + m
void decode_q4_1(const std::byte* block, float* out) {
  const float d = f16_at(block), m = f16_at(block + 2);
  for (int j = 0; j < 16; ++j) {
    const uint8_t q = at(block + 4, j);
    out[j] = d * static_cast<float>(q & 15) + m;
    out[j + 16] = d * static_cast<float>(q >> 4) + m;
  }
}

// The 5-bit values of {u32 qh; u8 qs[16]}: bit i of qh is the fifth bit of element i.
std::array<int, 32> five_bit_values(const std::byte* bytes) {
  std::array<int, 32> values;
  const uint32_t high = load<uint32_t>(bytes);
  for (int j = 0; j < 16; ++j) {
    const uint8_t q = at(bytes + 4, j);
    values[j] = static_cast<int>((q & 15u) | (high >> j & 1u) << 4);
    values[j + 16] = static_cast<int>((q >> 4) | (high >> (j + 16) & 1u) << 4);
  }
  return values;
}

// {f16 d; u32 qh; u8 qs[16]}: d * (q - 16)
void decode_q5_0(const std::byte* block, float* out) {
  const float d = f16_at(block);
  const auto q = five_bit_values(block + 2);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(q[j] - 16);
}

// {f16 d; f16 m; u32 qh; u8 qs[16]}: d * q + m
void decode_q5_1(const std::byte* block, float* out) {
  const float d = f16_at(block), m = f16_at(block + 2);
  const auto q = five_bit_values(block + 4);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(q[j]) + m;
}

// {f16 d; i8 qs[32]}: d * q
void decode_q8_0(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(load<int8_t>(block + 2 + j));
}

// {f16 d; u8 qs[16]}: d * table[q]
void decode_iq4_nl(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (int j = 0; j < 16; ++j) {
    const uint8_t q = at(block + 2, j);
    out[j] = d * static_cast<float>(kIq4Values[q & 15]);
    out[j + 16] = d * static_cast<float>(kIq4Values[q >> 4]);
  }
}

// Twice the E2M1 values. GGUF's code 8 is a plain zero, where MLX's is a negative one.
constexpr int8_t kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// {u8 e8m0; u8 qs[16]}: 2^(e8m0 - 127) * E2M1. Computed as half the scale times twice the value, so that the
// largest scale, 2^128, needs no special case.
void decode_mxfp4(const std::byte* block, float* out) {
  const uint8_t exponent = at(block, 0);
  const float half_scale =
      std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : static_cast<uint32_t>(exponent - 1) << 23);
  for (int j = 0; j < 16; ++j) {
    const uint8_t q = at(block + 1, j);
    out[j] = half_scale * static_cast<float>(kTwiceE2m1[q & 15]);
    out[j + 16] = half_scale * static_cast<float>(kTwiceE2m1[q >> 4]);
  }
}

}  // namespace

BlockDecoder small_block_decoder(Format format) {
  switch (format) {
    case Format::q4_0: return decode_q4_0;
    case Format::q4_1: return decode_q4_1;
    case Format::q5_0: return decode_q5_0;
    case Format::q5_1: return decode_q5_1;
    case Format::q8_0: return decode_q8_0;
    case Format::iq4_nl: return decode_iq4_nl;
    case Format::mxfp4_blocks: return decode_mxfp4;
    default: return nullptr;
  }
}

}  // namespace drafthorse
