// GGUF super-blocks of 256 elements. Each comment gives the block's bytes; f16 and u16 fields are little-endian.

#include "weights/dequantise_rows.h"
#include "weights/float_formats.h"

namespace drafthorse {
namespace {

uint8_t at(const std::byte* bytes, int i) { return static_cast<uint8_t>(bytes[i]); }
float f16_at(const std::byte* bytes) { return f16_to_float(load<uint16_t>(bytes)); }

// {u8 scales[16]; u8 qs[64]; f16 d; f16 dmin}: d * (s & 15) * q - dmin * (s >> 4), sub-blocks of 16.
// Each half of 128 has 32 bytes; bits 2k, 2k+1 of byte l are element 32k + l of the half.
void decode_q2_k(const std::byte* block, float* out) {
  const float d = f16_at(block + 80), dmin = f16_at(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, shift = i % 128 / 32 * 2, l = i % 32;
    const uint8_t scale = at(block, i / 16);
    const int q = at(block + 16 + 32 * half, l) >> shift & 3;
    out[i] = d * static_cast<float>(scale & 15) * static_cast<float>(q) - dmin * static_cast<float>(scale >> 4);
  }
}

// The sixteen 6-bit scales of q3_k in 12 bytes: low nibbles in bytes 0..7, upper two bits in bytes 8..11.
int q3_k_scale(const std::byte* scales, int i) {
  const int low = i < 8 ? at(scales, i) & 15 : at(scales, i - 8) >> 4;
  const int high = at(scales, 8 + i % 4) >> (i / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// {u8 hmask[32]; u8 qs[64]; u8 scales[12]; f16 d}: d * s * (q - (high bit ? 0 : 4)), sub-blocks of 16.
// Low bits as in q2_k; the high bit of element 32k + l (k = 0..7) is bit k of hmask[l].
void decode_q3_k(const std::byte* block, float* out) {
  const float d = f16_at(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, shift = i % 128 / 32 * 2, l = i % 32;
    const int low = at(block + 32 + 32 * half, l) >> shift & 3;
    const int high = at(block, l) >> (i / 32) & 1;
    const float scale = d * static_cast<float>(q3_k_scale(block + 96, i / 16));
    out[i] = scale * static_cast<float>(low - (high ? 0 : 4));
  }
}

// The scale and minimum of sub-block j (0..7) of q4_k and q5_k: 6 bits each, in 12 bytes.
struct ScaleMin {
  int scale, min;
};
ScaleMin k_scale_min(const std::byte* sc, int j) {
  if (j < 4) return {at(sc, j) & 63, at(sc, j + 4) & 63};
  return {(at(sc, j + 4) & 15) | at(sc, j - 4) >> 6 << 4, at(sc, j + 4) >> 4 | at(sc, j) >> 6 << 4};
}

// {f16 d; f16 dmin; u8 sc[12]; u8 qs[128]}: d * s * q - dmin * m, sub-blocks of 32.
// Bytes 32c..32c+31: the low nibbles are sub-block 2c, the high nibbles sub-block 2c + 1.
void decode_q4_k(const std::byte* block, float* out) {
  const float d = f16_at(block), dmin = f16_at(block + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin sm = k_scale_min(block + 4, j);
    const float scale = d * static_cast<float>(sm.scale), min = dmin * static_cast<float>(sm.min);
    for (int l = 0; l < 32; ++l) {
      const int q = at(block + 16 + 32 * (j / 2), l) >> (j % 2 * 4) & 15;
      out[32 * j + l] = scale * static_cast<float>(q) - min;
    }
  }
}

// {f16 d; f16 dmin; u8 sc[12]; u8 qh[32]; u8 qs[128]}: as q4_k, with 16 * bit j of qh[l] added to q.
void decode_q5_k(const std::byte* block, float* out) {
  const float d = f16_at(block), dmin = f16_at(block + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin sm = k_scale_min(block + 4, j);
    const float scale = d * static_cast<float>(sm.scale), min = dmin * static_cast<float>(sm.min);
    for (int l = 0; l < 32; ++l) {
      const int low = at(block + 48 + 32 * (j / 2), l) >> (j % 2 * 4) & 15;
      const int high = at(block + 16, l) >> j & 1;
      out[32 * j + l] = scale * static_cast<float>(low | high << 4) - min;
    }
  }
}

// {u8 ql[128]; u8 qh[64]; i8 sc[16]; f16 d}: d * s * (q - 32), sub-blocks of 16, two halves of 128.
// In a half, element 32k + l: low four bits from byte l + 32 * (k % 2) of ql (low nibble for k < 2), upper two bits
// are bits 2k, 2k+1 of qh[l].
void decode_q6_k(const std::byte* block, float* out) {
  const float d = f16_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, k = i % 128 / 32, l = i % 32;
    const int low = at(block + 64 * half, l + 32 * (k % 2)) >> (k / 2 * 4) & 15;
    const int high = at(block + 128 + 32 * half, l) >> (2 * k) & 3;
    const float scale = d * static_cast<float>(load<int8_t>(block + 192 + i / 16));
    out[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

// {f16 d; u16 scales_h; u8 scales_l[4]; u8 qs[128]}: d * (s - 32) * table[q], sub-blocks of 32, each laid out as
// iq4_nl. Scale j: low nibble of 4 bits from scales_l, upper two from bits 2j, 2j+1 of scales_h.
void decode_iq4_xs(const std::byte* block, float* out) {
  const float d = f16_at(block);
  const int scales_high = load<uint16_t>(block + 2);
  for (int j = 0; j < 8; ++j) {
    const int low = at(block + 4, j / 2) >> (j % 2 * 4) & 15;
    const float scale = d * static_cast<float>((low | (scales_high >> (2 * j) & 3) << 4) - 32);
    for (int l = 0; l < 16; ++l) {
      const uint8_t q = at(block + 8 + 16 * j, l);
      out[32 * j + l] = scale * static_cast<float>(kIq4Values[q & 15]);
      out[32 * j + l + 16] = scale * static_cast<float>(kIq4Values[q >> 4]);
    }
  }
}

}  // namespace

BlockDecoder super_block_decoder(Format format) {
  switch (format) {
    case Format::q2_k: return decode_q2_k;
    case Format::q3_k: return decode_q3_k;
    case Format::q4_k: return decode_q4_k;
    case Format::q5_k: return decode_q5_k;
    case Format::q6_k: return decode_q6_k;
    case Format::iq4_xs: return decode_iq4_xs;
    default: return nullptr;
  }
}

}  // namespace drafthorse
