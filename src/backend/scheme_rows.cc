// How the codes, scales and biases of a row lie in each source format (docs/architecture.md, "Weight formats").

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/scheme.h"
#include "core/half.h"

namespace drafthorse {
namespace {

using Bytes = const uint8_t*;

float bf16_to_float(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }
uint16_t load16(Bytes p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
float half(Bytes p) { return half_to_float(load16(p)); }

// 2^(e - 127) / 2, exact (subnormal for e < 2).
float e8m0_half(uint8_t e) { return std::ldexp(1.0f, static_cast<int>(e) - 128); }

// E4M3 without infinities: 4 exponent bits (bias 7), 3 of mantissa; 0x7f and 0xff are NaN.
float e4m3(uint8_t v) {
  int exponent = v >> 3 & 15, mantissa = v & 7;
  if ((v & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return v & 0x80 ? -magnitude : magnitude;
}

// A row's destination.
struct Row {
  int16_t* codes;
  float* scales;
  float* biases;
};

// The value table of IQ4_NL and IQ4_XS.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// E2M1, doubled so that all values are integers.
constexpr int8_t kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 16 bytes whose low nibbles are elements 0..15 and whose high nibbles are elements 16..31.
template <class Map>
void split_nibbles(Bytes qs, int16_t* codes, Map map) {
  for (int j = 0; j < 16; j++) {
    codes[j] = static_cast<int16_t>(map(qs[j] & 15));
    codes[j + 16] = static_cast<int16_t>(map(qs[j] >> 4));
  }
}

// Blocks of 32: `block` writes 32 codes, one scale and, when biased, one bias.
template <class Block>
void blocks_of_32(Bytes data, int64_t columns, int bytes, Row out, Block block) {
  for (int64_t b = 0; b < columns / 32; b++)
    block(data + b * bytes, out.codes + 32 * b, out.scales + b, out.biases + b);
}

auto identity = [](int q) { return q; };

void q4_0(Bytes p, int16_t* codes, float* scale, float*) {
  split_nibbles(p + 2, codes, identity);
  *scale = half(p);
}
void q4_1(Bytes p, int16_t* codes, float* scale, float* bias) {
  split_nibbles(p + 4, codes, identity);
  *scale = half(p), *bias = half(p + 2);
}
void add_fifth_bits(Bytes qh, int16_t* codes) {
  for (int j = 0; j < 32; j++) codes[j] = static_cast<int16_t>(codes[j] | (qh[j / 8] >> (j % 8) & 1) << 4);
}
void q5_0(Bytes p, int16_t* codes, float* scale, float*) {
  split_nibbles(p + 6, codes, identity);
  add_fifth_bits(p + 2, codes);
  *scale = half(p);
}
void q5_1(Bytes p, int16_t* codes, float* scale, float* bias) {
  split_nibbles(p + 8, codes, identity);
  add_fifth_bits(p + 4, codes);
  *scale = half(p), *bias = half(p + 2);
}
void q8_0(Bytes p, int16_t* codes, float* scale, float*) {
  for (int j = 0; j < 32; j++) codes[j] = static_cast<int8_t>(p[2 + j]);
  *scale = half(p);
}
void iq4_nl(Bytes p, int16_t* codes, float* scale, float*) {
  split_nibbles(p + 2, codes, [](int q) { return kIq4Values[q]; });
  *scale = half(p);
}
void mxfp4_block(Bytes p, int16_t* codes, float* scale, float*) {
  split_nibbles(p + 1, codes, [](int q) { return kE2m1Doubled[q]; });
  *scale = e8m0_half(p[0]);
}

// The 6-bit scale and minimum of sub-block j of Q4_K and Q5_K.
void k_scale_min(Bytes sc, int j, int& scale, int& min) {
  if (j < 4) {
    scale = sc[j] & 63, min = sc[j + 4] & 63;
  } else {
    scale = (sc[j + 4] & 15) | (sc[j - 4] >> 6) << 4;
    min = sc[j + 4] >> 4 | (sc[j] >> 6) << 4;
  }
}

void q2_k(Bytes p, int16_t* codes) {
  Bytes qs = p + 16;
  for (int k = 0; k < 256; k++) codes[k] = qs[k / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3;
}
SuperScales q2_k_scales(Bytes p) {
  SuperScales s{half(p + 80), half(p + 82), {}, {}};
  for (int g = 0; g < 16; g++) s.scale[g] = p[g] & 15, s.min[g] = p[g] >> 4;
  return s;
}

void q3_k(Bytes p, int16_t* codes) {
  Bytes hmask = p, qs = p + 32;
  for (int k = 0; k < 256; k++) {
    int low = qs[k / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3, high = hmask[k % 32] >> (k / 32) & 1;
    codes[k] = static_cast<int16_t>(low | high << 2);
  }
}
// 16 scales of 6 bits: low nibbles in bytes 0..7 (two a byte, eight apart), upper two bits in bytes 8..11.
SuperScales q3_k_scales(Bytes p) {
  Bytes sc = p + 96;
  SuperScales s{half(p + 108), 0, {}, {}};
  for (int g = 0; g < 16; g++) {
    int low = g < 8 ? sc[g] & 15 : sc[g - 8] >> 4, high = sc[8 + g % 4] >> (2 * (g / 4)) & 3;
    s.scale[g] = (low | high << 4) - 32;
  }
  return s;
}

SuperScales q4_k_scales(Bytes p) {
  SuperScales s{half(p), half(p + 2), {}, {}};
  for (int j = 0; j < 8; j++) k_scale_min(p + 4, j, s.scale[j], s.min[j]);
  return s;
}

void q4_k(Bytes p, int16_t* codes) {
  Bytes qs = p + 16;
  for (int k = 0; k < 256; k++) codes[k] = qs[k / 64 * 32 + k % 32] >> (k % 64 / 32 * 4) & 15;
}

void q5_k(Bytes p, int16_t* codes) {
  Bytes qh = p + 16, qs = p + 48;
  for (int k = 0; k < 256; k++) {
    int low = qs[k / 64 * 32 + k % 32] >> (k % 64 / 32 * 4) & 15, high = qh[k % 32] >> (k / 32) & 1;
    codes[k] = static_cast<int16_t>(low | high << 4);
  }
}

void q6_k(Bytes p, int16_t* codes) {
  for (int k = 0; k < 256; k++) {
    int h = k / 128, quarter = k % 128 / 32, l = k % 32;
    int low = p[64 * h + l + 32 * (quarter & 1)] >> (4 * (quarter >> 1)) & 15;
    int high = p[128 + 32 * h + l] >> (2 * quarter) & 3;
    codes[k] = static_cast<int16_t>(low | high << 4);
  }
}
SuperScales q6_k_scales(Bytes p) {
  SuperScales s{half(p + 208), 0, {}, {}};
  for (int g = 0; g < 16; g++) s.scale[g] = static_cast<int8_t>(p[192 + g]);
  return s;
}

// {f16 d; u16 scales_h; u8 scales_l[4]; u8 qs[128]}: 8 sub-blocks of 32, each in the nibble order of IQ4_NL.
void iq4_xs(Bytes p, int16_t* codes) {
  for (int j = 0; j < 8; j++) split_nibbles(p + 8 + 16 * j, codes + 32 * j, [](int q) { return kIq4Values[q]; });
}
SuperScales iq4_xs_scales(Bytes p) {
  SuperScales s{half(p), 0, {}, {}};
  int high = load16(p + 2);
  for (int j = 0; j < 8; j++) s.scale[j] = ((p[4 + j / 2] >> (4 * (j % 2)) & 15) | (high >> (2 * j) & 3) << 4) - 32;
  return s;
}

struct SuperFormat {
  int bytes;  // of 256 inputs
  void (*codes)(Bytes, int16_t*);
  SuperScales (*scales)(Bytes);
};
SuperFormat super_format(Format format) {
  switch (format) {
    case Format::q2_k: return {84, q2_k, q2_k_scales};
    case Format::q3_k: return {110, q3_k, q3_k_scales};
    case Format::q4_k: return {144, q4_k, q4_k_scales};
    case Format::q5_k: return {176, q5_k, q4_k_scales};
    case Format::q6_k: return {210, q6_k, q6_k_scales};
    default: return {136, iq4_xs, iq4_xs_scales};
  }
}

void super_row(const TensorView& weight, const Scheme& scheme, Bytes data, Row out) {
  const SuperFormat format = super_format(weight.format);
  const int groups = 256 / scheme.group;
  for (int64_t b = 0; b < weight.columns() / 256; b++) {
    format.codes(data + b * format.bytes, out.codes + 256 * b);
    const SuperScales s = format.scales(data + b * format.bytes);
    for (int g = 0; g < groups; g++) {
      out.scales[groups * b + g] = s.d * static_cast<float>(s.scale[g]);
      if (scheme.biased) out.biases[groups * b + g] = -(s.dmin * static_cast<float>(s.min[g]));
    }
  }
}

// A little-endian bit stream: element i is bits [i * bits, (i + 1) * bits) of the row.
void affine_codes(Bytes data, int bits, int64_t columns, int16_t* codes) {
  int mask = (1 << bits) - 1;
  for (int64_t k = 0; k < columns; k++) {
    int64_t bit = k * bits;
    int shift = static_cast<int>(bit % 8), word = data[bit / 8];
    if (shift + bits > 8) word |= data[bit / 8 + 1] << 8;
    codes[k] = static_cast<int16_t>(word >> shift & mask);
  }
}

float scale_value(Bytes data, Format format, int64_t i) {
  if (format == Format::f32) {
    float value;
    std::memcpy(&value, data + 4 * i, 4);
    return value;
  }
  uint16_t bits = load16(data + 2 * i);
  return format == Format::bf16 ? bf16_to_float(bits) : half_to_float(bits);
}

void affine(const TensorView& weight, int64_t row, Row out) {
  int64_t columns = weight.columns(), groups = columns / weight.group_size;
  auto base = [](std::span<const std::byte> data) { return reinterpret_cast<Bytes>(data.data()); };
  affine_codes(base(weight.data) + row * (columns * weight.bits / 8), weight.bits, columns, out.codes);
  for (int64_t g = 0; g < groups; g++) {
    out.scales[g] = scale_value(base(weight.scales), weight.scale_format, row * groups + g);
    out.biases[g] = scale_value(base(weight.biases), weight.scale_format, row * groups + g);
  }
}

// MLX mxfp4 and nvfp4: two codes a byte, the even one in the low nibble; one scale byte a group.
void fp4(const TensorView& weight, int64_t row, int group, Row out) {
  int64_t columns = weight.columns(), groups = columns / group;
  Bytes data = reinterpret_cast<Bytes>(weight.data.data()) + row * (columns / 2);
  Bytes scales = reinterpret_cast<Bytes>(weight.scales.data()) + row * groups;
  for (int64_t k = 0; k < columns; k++) out.codes[k] = kE2m1Doubled[data[k / 2] >> (4 * (k % 2)) & 15];
  for (int64_t g = 0; g < groups; g++) {
    out.scales[g] = weight.format == Format::nvfp4 ? e4m3(scales[g]) * 0.5f : e8m0_half(scales[g]);
  }
}

}  // namespace

void read_row(const TensorView& weight, const Scheme& scheme, int64_t row, std::span<int16_t> codes,
              std::span<float> scales, std::span<float> biases) {
  int64_t columns = weight.columns();
  Row out{codes.data(), scales.data(), biases.data()};
  Bytes data =
      reinterpret_cast<Bytes>(weight.data.data()) + row * (static_cast<int64_t>(weight.data.size()) / weight.rows());
  switch (weight.format) {
    case Format::q4_0: return blocks_of_32(data, columns, 18, out, q4_0);
    case Format::q4_1: return blocks_of_32(data, columns, 20, out, q4_1);
    case Format::q5_0: return blocks_of_32(data, columns, 22, out, q5_0);
    case Format::q5_1: return blocks_of_32(data, columns, 24, out, q5_1);
    case Format::q8_0: return blocks_of_32(data, columns, 34, out, q8_0);
    case Format::iq4_nl: return blocks_of_32(data, columns, 18, out, iq4_nl);
    case Format::mxfp4_blocks: return blocks_of_32(data, columns, 17, out, mxfp4_block);
    case Format::q2_k:
    case Format::q3_k:
    case Format::q4_k:
    case Format::q5_k:
    case Format::q6_k:
    case Format::iq4_xs: return super_row(weight, scheme, data, out);
    case Format::affine: return affine(weight, row, out);
    case Format::mxfp4:
    case Format::nvfp4: return fp4(weight, row, scheme.group, out);
    default: return;  // float formats have no codes; scheme_of refuses the others
  }
}

SuperScales read_super_scales(const TensorView& weight, int64_t row, int64_t block) {
  const SuperFormat format = super_format(weight.format);
  Bytes data = reinterpret_cast<Bytes>(weight.data.data());
  return format.scales(data + (row * (weight.columns() / 256) + block) * format.bytes);
}

void read_float_row(const TensorView& weight, int64_t row, std::span<float> values) {
  int64_t columns = weight.columns();
  Bytes data = reinterpret_cast<Bytes>(weight.data.data());
  if (weight.format == Format::mxfp8) {
    Bytes scales = reinterpret_cast<Bytes>(weight.scales.data()) + row * (columns / 32);
    for (int64_t k = 0; k < columns; k++) {
      values[k] = e4m3(data[row * columns + k]) * std::ldexp(1.0f, scales[k / 32] - 127);
    }
    return;
  }
  for (int64_t k = 0; k < columns; k++) values[k] = scale_value(data, weight.format, row * columns + k);
}

}  // namespace drafthorse
