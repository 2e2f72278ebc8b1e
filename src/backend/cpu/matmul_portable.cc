// Plain C++, for every CPU and readable as the meaning of layouts.h: a segment of a block is decoded, then every row is
// multiplied with it. The loops over the 16 lanes are left to the compiler.

#include <cmath>

#include "backend/cpu/kernel_body.h"
#include "core/half.h"

namespace drafthorse {
namespace {

using Lanes = float[16];

// 512 inputs of 16 outputs. Scales and biases by step.
struct Decoded {
  int16_t codes[kSegment][16];
  Lanes scales[kSegment / 16], biases[kSegment / 16];
};

uint16_t word(const uint8_t* p, int i) { return static_cast<uint16_t>(p[2 * i] | p[2 * i + 1] << 8); }

float scale_at(ScaleType type, const uint8_t* p, int lane) {
  switch (type) {
    case ScaleType::f16: return half_to_float(word(p, lane));
    case ScaleType::bf16: return std::bit_cast<float>(static_cast<uint32_t>(word(p, lane)) << 16);
    case ScaleType::f32: {
      float value;
      std::memcpy(&value, p + 4 * lane, 4);
      return value;
    }
    // 2^(e - 128): for e >= 2 the exponent field e - 1, below that a subnormal.
    case ScaleType::e8m0: return std::bit_cast<float>(p[lane] >= 2 ? (p[lane] - 1u) << 23 : (p[lane] + 1u) << 21);
    // E4M3's bits at the place of f16's are the value times 2^-8.
    case ScaleType::e4m3:
      return half_to_float(static_cast<uint16_t>((p[lane] & 0x7f) << 7 | (p[lane] & 0x80) << 8)) * 128.0f;
  }
  return 0;
}

void load_scales(ScaleType type, const uint8_t* p, Lanes& out) {
  for (int lane = 0; lane < 16; lane++) out[lane] = scale_at(type, p, lane);
}

// Code vector j, byte i of a unit.
int code_at(Codes codes, const uint8_t* p, int j, int i) {
  auto nibble = [&] { return p[64 * (j % 4) + i] >> (j / 4 * 4) & 15; };
  auto pair = [&](const uint8_t* plane) { return plane[64 * (j % 2) + i] >> (j / 2 * 2) & 3; };
  auto bit = [&](const uint8_t* plane) { return plane[i] >> j & 1; };
  switch (codes) {
    case Codes::b2: return pair(p);
    case Codes::b3: return pair(p) | bit(p + 128) << 2;
    case Codes::b4: return nibble();
    case Codes::b5: return nibble() | bit(p + 256) << 4;
    case Codes::b6: return nibble() | pair(p + 256) << 4;
    case Codes::s8: return static_cast<int8_t>(p[64 * j + i]);
    case Codes::e2m1: return kE2m1Table[nibble()];
    case Codes::iq4: return kIq4Table[nibble()];
  }
  return 0;
}

void decode_unit(const LayoutTraits& t, const uint8_t* p, int16_t (*codes)[16]) {
  // Bytes of codes are read only as far as the plane reaches: 8-bit units have all eight vectors.
  for (int j = 0; j < 8; j++) {
    for (int i = 0; i < 64; i++) codes[4 * j + i % 4][i / 4] = static_cast<int16_t>(code_at(t.codes, p, j, i) - t.zero);
  }
}

const uint8_t* decode_simple(const LayoutTraits& t, const PackedLinear& w, const uint8_t* p, int inputs, Decoded& out) {
  const ScaleType type = static_cast<ScaleType>(w.scale_type);
  const int bytes = 16 * scale_bytes(type), tile = std::max(32, t.step * w.steps_per_tile);
  for (int k = 0; k < inputs; k += tile) {
    for (int i = 0; i < tile; i += 32, p += unit_bytes(t.codes)) decode_unit(t, p, out.codes + k + i);
    // Scales of the tile: one, or two for groups of 16; then the bias. Steps of one group repeat them.
    const int scales = t.steps_per_unit();
    for (int i = 0; i < tile / t.step; i++) {
      load_scales(type, p + (scales == 2 ? i : 0) * bytes, out.scales[k / t.step + i]);
      if (t.biased) load_scales(type, p + bytes, out.biases[k / t.step + i]);
    }
    p += bytes * (t.biased ? 2 : scales);
  }
  return p;
}

void decode_sub_scales(const LayoutTraits& t, const uint8_t* sub, const Lanes& d, const Lanes& minus_dmin, int h,
                       Lanes& scales, Lanes& biases) {
  for (int lane = 0; lane < 16; lane++) {
    const int byte = sub[16 * h + lane];
    if (t.sub == SubScales::scale_min) {
      scales[lane] = d[lane] * static_cast<float>(byte);
      biases[lane] = minus_dmin[lane] * static_cast<float>(sub[16 + lane]);
    } else if (t.sub == SubScales::nibbles) {
      scales[lane] = d[lane] * static_cast<float>(byte & 15);
      biases[lane] = minus_dmin[lane] * static_cast<float>(byte >> 4);
    } else {
      scales[lane] = d[lane] * static_cast<float>(static_cast<int8_t>(byte));
    }
  }
}

const uint8_t* decode_super(const LayoutTraits& t, const uint8_t* p, int inputs, Decoded& out) {
  for (int k = 0; k < inputs; k += 256) {
    Lanes d, minus_dmin = {};
    load_scales(ScaleType::f16, p, d);
    if (t.biased) load_scales(ScaleType::f16, p + 32, minus_dmin);
    p += t.head_bytes();
    for (int u = 0; u < 8; u++, p += t.super_unit_bytes()) {
      decode_unit(t, p, out.codes + k + 32 * u);
      for (int h = 0; h < t.steps_per_unit(); h++) {
        const int step = (k + 32 * u) / t.step + h;
        decode_sub_scales(t, p + unit_bytes(t.codes), d, minus_dmin, h, out.scales[step], out.biases[step]);
      }
    }
  }
  return p;
}

void multiply_row(const LayoutTraits& t, const Decoded& w, int inputs, const QuantisedSegment& x, Lanes& acc) {
  for (float& a : acc) a = 0;
  for (int s = 0; s < inputs / t.step; s++) {
    int32_t dot[16] = {};
    for (int k = s * t.step; k < (s + 1) * t.step; k++) {
      for (int lane = 0; lane < 16; lane++) dot[lane] += w.codes[k][lane] * x.q[k];
    }
    const float d = x.d[t.step == 16 ? s / 2 : s], d_sum = t.step == 16 ? x.d_sum16[s] : x.d_sum[s];
    for (int lane = 0; lane < 16; lane++) {
      acc[lane] = std::fma(static_cast<float>(dot[lane]), w.scales[s][lane] * d, acc[lane]);
      if (t.biased) acc[lane] = std::fma(w.biases[s][lane], d_sum, acc[lane]);
    }
  }
}

// 512 inputs of a float block.
const uint8_t* decode_floats(PackedLayout layout, const uint8_t* p, int inputs, Lanes* out) {
  for (int k = 0; k < inputs; k++) {
    if (layout == PackedLayout::mxfp8) {
      for (int lane = 0; lane < 16; lane++) {
        const float value = scale_at(ScaleType::e4m3, p, lane) * 4.0f;
        out[k][lane] = value * scale_at(ScaleType::e8m0, p + 16 * (32 - k % 32), lane);
      }
      p += k % 32 == 31 ? 32 : 16;
    } else {
      const ScaleType type = layout == PackedLayout::f32   ? ScaleType::f32
                             : layout == PackedLayout::f16 ? ScaleType::f16
                                                           : ScaleType::bf16;
      load_scales(type, p, out[k]);
      p += 16 * scale_bytes(type);
    }
  }
  return p;
}

void add_to(const Lanes& acc, bool first, float* y, int lanes) {
  for (int lane = 0; lane < lanes; lane++) y[lane] = (first ? 0.0f : y[lane]) + acc[lane];
}

// Calls rows(block's outputs so far, segment, inputs, lanes) after decode(p, inputs) has moved p on.
template <class Decode, class Row>
void for_each_segment(const PackedLinear& w, const Activations& a, int64_t block_begin, int64_t block_end,
                      Decode decode, Row rows) {
  for (int64_t b = block_begin; b < block_end; b++) {
    const uint8_t* p = w.data.data() + b * w.block_bytes;
    for (int64_t s = 0; s < a.segments(); s++) {
      const int inputs = static_cast<int>(std::min<int64_t>(kSegment, w.inputs - s * kSegment));
      p = decode(p, inputs);
      rows(b, s, inputs);
    }
  }
}

void matmul_quantised(const PackedLinear& w, const Activations& a, int row_begin, int row_end, float* y, int64_t ldy,
                      int64_t block_begin, int64_t block_end) {
  const LayoutTraits t = traits(w.layout);
  Decoded decoded;
  for_each_segment(
      w, a, block_begin, block_end,
      [&](const uint8_t* p, int inputs) {
        return t.tile == Tile::super ? decode_super(t, p, inputs, decoded) : decode_simple(t, w, p, inputs, decoded);
      },
      [&](int64_t b, int64_t s, int inputs) {
        for (int r = row_begin; r < row_end; r++) {
          Lanes acc;
          multiply_row(t, decoded, inputs, *a.quantised(w.activations, s, r), acc);
          add_to(acc, s == 0, y + (r - row_begin) * ldy + b * kBlockOutputs, kernel::lanes_of(w, b));
        }
      });
}

void matmul_floats(const PackedLinear& w, const Activations& a, int row_begin, int row_end, float* y, int64_t ldy,
                   int64_t block_begin, int64_t block_end) {
  Lanes values[kSegment];
  for_each_segment(
      w, a, block_begin, block_end,
      [&](const uint8_t* p, int inputs) { return decode_floats(w.layout, p, inputs, values); },
      [&](int64_t b, int64_t s, int inputs) {
        for (int r = row_begin; r < row_end; r++) {
          const float* x = a.floats(s, r);
          Lanes acc = {};
          for (int k = 0; k < inputs; k++) {
            for (int lane = 0; lane < 16; lane++) acc[lane] = std::fma(values[k][lane], x[k], acc[lane]);
          }
          add_to(acc, s == 0, y + (r - row_begin) * ldy + b * kBlockOutputs, kernel::lanes_of(w, b));
        }
      });
}

constexpr std::array<MatmulFunction, kPackedLayouts> table() {
  std::array<MatmulFunction, kPackedLayouts> table{};
  for (int i = 0; i < kPackedLayouts; i++) {
    table[i] = traits(static_cast<PackedLayout>(i)).tile == Tile::values ? matmul_floats : matmul_quantised;
  }
  return table;
}

void quantise(const float* x, int n, int group, QuantisedSegment& out) {
  for (int g = 0; g < n / group; g++) {
    const float* from = x + g * group;
    int32_t max = 0;
    for (int k = 0; k < group; k++) max = std::max(max, std::bit_cast<int32_t>(from[k]) & 0x7fffffff);
    auto [d, id] = kernel::group_scale(max);
    if (id == 0) {
      kernel::empty_group(g, group, d, out);
      continue;
    }
    for (int k = 0; k < group; k += 16) {
      int8_t* q = out.q + g * group + k;
      int32_t sum = 0;
      for (int i = 0; i < 16; i++) {
        q[i] = static_cast<int8_t>(std::lrint(from[k + i] * id));
        sum += q[i];
      }
      out.sum16[(g * group + k) / 16] = sum;
    }
    kernel::finish_group(g, group, d, out);
  }
}

constexpr Kernels kKernels{"portable", table(), quantise};

}  // namespace

const Kernels& portable_kernels() { return kKernels; }

}  // namespace drafthorse
