// Source formats to the packed layouts of layouts.h.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>

#include "backend/cpu/layouts.h"
#include "backend/cpu/matmul.h"
#include "core/half.h"

namespace drafthorse {
namespace {

PackedLayout layout_of(const TensorView& w) {
  using P = PackedLayout;
  switch (w.format) {
    case Format::q4_0: return P::q4_0;
    case Format::q4_1: return P::b4_32;
    case Format::q5_0: return P::q5_0;
    case Format::q5_1: return P::b5_32;
    case Format::q8_0: return P::q8_0;
    case Format::iq4_nl: return P::iq4_nl;
    case Format::mxfp4:
    case Format::mxfp4_blocks: return P::mxfp4;
    case Format::nvfp4: return P::nvfp4;
    case Format::q2_k: return P::q2_k;
    case Format::q3_k: return P::q3_k;
    case Format::q4_k: return P::q4_k;
    case Format::q5_k: return P::q5_k;
    case Format::q6_k: return P::q6_k;
    case Format::iq4_xs: return P::iq4_xs;
    case Format::f16: return P::f16;
    case Format::bf16: return P::bf16;
    case Format::mxfp8: return P::mxfp8;
    case Format::affine: {
      int index = w.bits == 8 ? 5 : w.bits - 2;
      return static_cast<P>(index + (w.group_size % 64 == 0 ? 6 : 0));
    }
    default: return P::f32;
  }
}

ScaleType scale_type_of(const TensorView& w) {
  switch (w.format) {
    case Format::affine:
      return w.scale_format == Format::f32    ? ScaleType::f32
             : w.scale_format == Format::bf16 ? ScaleType::bf16
                                              : ScaleType::f16;
    case Format::mxfp4:
    case Format::mxfp4_blocks: return ScaleType::e8m0;
    case Format::nvfp4: return ScaleType::e4m3;
    default: return ScaleType::f16;
  }
}

uint16_t bf16_bits(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

// The stored form of a scale that came from this type, so nothing is rounded. e8m0 and e4m3 scales are halved values.
void store_scale(ScaleType type, float value, int lane, uint8_t* p) {
  switch (type) {
    case ScaleType::f32: std::memcpy(p + 4 * lane, &value, 4); return;
    case ScaleType::e8m0: p[lane] = static_cast<uint8_t>(value > 0 ? std::ilogb(value) + 128 : 0); return;
    case ScaleType::e4m3: {
      uint16_t bits = float_to_half(value * 0x1p-7f);
      p[lane] = static_cast<uint8_t>((bits >> 7 & 0x7f) | (bits >> 8 & 0x80));
      return;
    }
    default: {
      uint16_t bits = type == ScaleType::bf16 ? bf16_bits(value) : float_to_half(value);
      std::memcpy(p + 2 * lane, &bits, 2);
    }
  }
}

// Maps a scheme's integer code to the byte or nibble that is stored.
class StoredCodes {
 public:
  StoredCodes(Codes codes, int zero)
      : offset_(codes == Codes::s8 ? zero : 0), table_(codes == Codes::e2m1 || codes == Codes::iq4) {
    for (int i = 0; i < 16 && table_; i++) {
      int value = codes == Codes::iq4 ? kIq4Table[i] : kE2m1Table[i] - zero;
      inverse_[value + 128] = static_cast<uint8_t>(i);
    }
  }
  uint8_t operator()(int code) const { return table_ ? inverse_[code + 128] : static_cast<uint8_t>(code + offset_); }

 private:
  int offset_;
  bool table_;
  uint8_t inverse_[256] = {};
};

using Unit = uint8_t[8][64];

void pack_nibbles(const Unit& c, uint8_t* out) {
  for (int v = 0; v < 4; v++) {
    for (int i = 0; i < 64; i++) out[64 * v + i] = static_cast<uint8_t>((c[v][i] & 15) | (c[v + 4][i] & 15) << 4);
  }
}
void pack_pairs(const Unit& c, int bit, uint8_t* out) {
  auto pair = [&](int v, int i) { return c[v][i] >> bit & 3; };
  for (int v = 0; v < 2; v++) {
    for (int i = 0; i < 64; i++) {
      out[64 * v + i] =
          static_cast<uint8_t>(pair(v, i) | pair(v + 2, i) << 2 | pair(v + 4, i) << 4 | pair(v + 6, i) << 6);
    }
  }
}
void pack_bits(const Unit& c, int bit, uint8_t* out) {
  for (int i = 0; i < 64; i++) {
    int byte = 0;
    for (int v = 0; v < 8; v++) byte |= (c[v][i] >> bit & 1) << v;
    out[i] = static_cast<uint8_t>(byte);
  }
}
void pack_unit(Codes codes, const Unit& c, uint8_t* out) {
  switch (codes) {
    case Codes::b2: return pack_pairs(c, 0, out);
    case Codes::b3: pack_pairs(c, 0, out); return pack_bits(c, 2, out + 128);
    case Codes::b5: pack_nibbles(c, out); return pack_bits(c, 4, out + 256);
    case Codes::b6: pack_nibbles(c, out); return pack_pairs(c, 4, out + 256);
    case Codes::s8: std::memcpy(out, c, 512); return;
    default: return pack_nibbles(c, out);
  }
}

// Sixteen rows of the source; rows past the last output are zero weights.
struct Rows {
  std::vector<int16_t> codes;
  std::vector<float> scales, biases, values;
};

struct Packer {
  const TensorView& weight;
  const Scheme& scheme;
  const PackedLinear& linear;
  LayoutTraits t;
  ScaleType type;
  StoredCodes stored;
  int64_t offset;  // bytes of the parts before this one

  int64_t inputs() const { return weight.columns(); }
  int64_t groups() const { return inputs() / scheme.group; }

  // Codes of 32 inputs of all lanes, as a unit.
  uint8_t* unit(const Rows& rows, int64_t k0, uint8_t* out) const {
    Unit c;
    for (int lane = 0; lane < 16; lane++) {
      const int16_t* codes = rows.codes.data() + lane * inputs() + k0;
      for (int k = 0; k < 32; k++) c[k / 4][4 * lane + k % 4] = stored(codes[k]);
    }
    pack_unit(t.codes, c, out);
    return out + unit_bytes(t.codes);
  }

  uint8_t* scale_vector(const std::vector<float>& values, int64_t group, uint8_t* out) const {
    for (int lane = 0; lane < 16; lane++) store_scale(type, values[lane * groups() + group], lane, out);
    return out + 16 * scale_bytes(type);
  }

  void simple(const Rows& rows, uint8_t* out) const {
    const int tile_inputs = std::max(32, scheme.group);
    for (int64_t k = 0; k < inputs(); k += tile_inputs) {
      for (int i = 0; i < tile_inputs; i += 32) out = unit(rows, k + i, out);
      for (int i = 0; i < tile_inputs; i += scheme.group) out = scale_vector(rows.scales, (k + i) / scheme.group, out);
      if (t.biased) out = scale_vector(rows.biases, k / scheme.group, out);
    }
  }

  void super(const Rows& rows, int64_t first, uint8_t* out) const {
    for (int64_t b = 0; b < inputs() / 256; b++) {
      SuperScales scales[16] = {};
      for (int lane = 0; lane < 16 && first + lane < weight.rows(); lane++) {
        scales[lane] = read_super_scales(weight, first + lane, b);
        store_scale(ScaleType::f16, scales[lane].d, lane, out);
        if (t.biased) store_scale(ScaleType::f16, -scales[lane].dmin, lane, out + 32);
      }
      out += t.head_bytes();
      for (int u = 0; u < 8; u++) {
        out = unit(rows, 256 * b + 32 * u, out);
        for (int lane = 0; lane < 16; lane++) sub_scales(scales[lane], u, lane, out);
        out += t.sub_bytes();
      }
    }
  }

  void sub_scales(const SuperScales& s, int u, int lane, uint8_t* out) const {
    if (t.sub == SubScales::scale_min) {
      out[lane] = static_cast<uint8_t>(s.scale[u]);
      out[16 + lane] = static_cast<uint8_t>(s.min[u]);
      return;
    }
    const int count = t.step == 16 ? 2 : 1;
    for (int h = 0; h < count; h++) {
      int g = u * count + h;
      out[16 * h + lane] = static_cast<uint8_t>(t.sub == SubScales::nibbles ? s.scale[g] | s.min[g] << 4 : s.scale[g]);
    }
  }

  void floats(const Rows& rows, uint8_t* out) const {
    for (int64_t k = 0; k < inputs(); k++) {
      for (int lane = 0; lane < 16; lane++) {
        const float value = rows.values[lane * inputs() + k];
        if (linear.layout == PackedLayout::f32) {
          std::memcpy(out + 4 * lane, &value, 4);
        } else {
          uint16_t bits = linear.layout == PackedLayout::bf16 ? bf16_bits(value) : float_to_half(value);
          std::memcpy(out + 2 * lane, &bits, 2);
        }
      }
      out += linear.layout == PackedLayout::f32 ? 64 : 32;
    }
  }

  // Bytes are kept as they are: 32 inputs of all lanes, then the lanes' scales.
  void mxfp8(int64_t first, int lanes, uint8_t* out) const {
    auto data = reinterpret_cast<const uint8_t*>(weight.data.data()),
         scales = reinterpret_cast<const uint8_t*>(weight.scales.data());
    for (int64_t k0 = 0; k0 < inputs(); k0 += 32, out += 33 * 16) {
      for (int lane = 0; lane < lanes; lane++) {
        const int64_t row = first + lane;
        for (int k = 0; k < 32; k++) out[16 * k + lane] = data[row * inputs() + k0 + k];
        out[32 * 16 + lane] = scales[(row * inputs() + k0) / 32];
      }
    }
  }

  void block(int64_t b, Rows& rows) const {
    uint8_t* out = linear.data.data() + offset + b * linear.block_bytes;
    const int64_t first = b * kBlockOutputs;
    const int lanes = static_cast<int>(std::min<int64_t>(kBlockOutputs, weight.rows() - first));
    if (linear.layout == PackedLayout::mxfp8) return mxfp8(first, lanes, out);
    read(first, lanes, rows);
    if (t.tile == Tile::simple) return simple(rows, out);
    if (t.tile == Tile::super) return super(rows, first, out);
    floats(rows, out);
  }

  void read(int64_t first, int lanes, Rows& rows) const {
    if (scheme.group == 0) {
      rows.values.assign(16 * inputs(), 0.0f);
      for (int lane = 0; lane < lanes; lane++) {
        read_float_row(weight, first + lane, std::span(rows.values).subspan(lane * inputs(), inputs()));
      }
      return;
    }
    rows.codes.assign(16 * inputs(), 0);
    rows.scales.assign(16 * groups(), 0.0f);
    rows.biases.assign(16 * groups(), 0.0f);
    for (int lane = 0; lane < lanes; lane++) {
      read_row(weight, scheme, first + lane, std::span(rows.codes).subspan(lane * inputs(), inputs()),
               std::span(rows.scales).subspan(lane * groups(), groups()),
               std::span(rows.biases).subspan(lane * groups(), groups()));
    }
  }
};

// Bytes of `inputs` inputs of one block of 16 outputs.
int64_t packed_bytes(const PackedLinear& linear, int group, int64_t inputs) {
  const LayoutTraits t = traits(linear.layout);
  switch (t.tile) {
    case Tile::super: return inputs / 256 * t.super_bytes();
    case Tile::simple:
      return inputs / std::max(32, group) *
             simple_tile_bytes(t, static_cast<ScaleType>(linear.scale_type), linear.steps_per_tile);
    case Tile::values: break;
  }
  return linear.layout == PackedLayout::mxfp8 ? inputs / 32 * (33 * 16)
                                              : inputs * (linear.layout == PackedLayout::f32 ? 64 : 32);
}

// The same rows as a view of their own, to release their pages.
TensorView rows_of(const TensorView& w, int64_t first, int64_t count) {
  TensorView part = w;
  auto cut = [&](std::span<const std::byte> data) {
    const size_t row = data.size() / static_cast<size_t>(w.rows());
    return data.subspan(first * row, count * row);
  };
  part.data = cut(w.data), part.scales = cut(w.scales), part.biases = cut(w.biases);
  part.shape = {count, w.columns()};
  return part;
}

// NaN is a value of the 8-bit float types; as a weight or scale it can only be a damaged file.
Status check_values(const TensorView& w) {
  auto holds = [](std::span<const std::byte> data, auto bad) {
    return std::any_of(data.begin(), data.end(), [&](std::byte b) { return bad(static_cast<uint8_t>(b)); });
  };
  auto e4m3_nan = [](uint8_t b) { return (b & 0x7f) == 0x7f; };
  auto e8m0_nan = [](uint8_t b) { return b == 0xff; };
  bool bad = false;
  if (w.format == Format::nvfp4) bad = holds(w.scales, e4m3_nan);
  if (w.format == Format::mxfp4 || w.format == Format::mxfp8) bad = holds(w.scales, e8m0_nan);
  if (w.format == Format::mxfp8) bad = bad || holds(w.data, e4m3_nan);
  for (size_t i = 0; w.format == Format::mxfp4_blocks && i < w.data.size(); i += 17)
    bad = bad || e8m0_nan(static_cast<uint8_t>(w.data[i]));
  if (!bad) return {};
  return Error{ErrorKind::corrupt,
               fmt::format("{}: a NaN among the {} values; the file is damaged", w.name, name(w.format)),
               {}};
}

// Outputs of a part that end in the middle of a block would share it with the next part.
Status check_parts(std::span<const TensorView* const> parts) {
  const TensorView& first = *parts[0];
  for (const TensorView* part : parts) {
    if (part->shape != first.shape || part->format != first.format || part->bits != first.bits ||
        part->group_size != first.group_size || part->scale_format != first.scale_format) {
      return Error{
          ErrorKind::unsupported,
          fmt::format("{} ({} {}) and {} ({} {}) differ in shape or format; matrices packed together must agree",
                      first.name, name(first.format), shape_text(first.shape), part->name, name(part->format),
                      shape_text(part->shape)),
          ""};
    }
    if (parts.size() > 1 && part->rows() % kBlockOutputs != 0) {
      return Error{ErrorKind::unsupported,
                   fmt::format("{} has {} outputs; matrices packed together need a multiple of {}", part->name,
                               part->rows(), kBlockOutputs),
                   ""};
    }
  }
  return {};
}

}  // namespace

Result<PackedLinear> pack(std::span<const TensorView* const> parts, ThreadPool& pool, const Checkpoint* checkpoint) {
  const TensorView& weight = *parts[0];
  Result<Scheme> scheme = scheme_of(weight);
  if (!scheme) return scheme.error();
  if (Status status = check_parts(parts); !status) return status.error();
  for (const TensorView* part : parts) {
    if (Result<Scheme> own = scheme_of(*part); !own) return own.error();
    if (Status status = check_values(*part); !status) return status.error();
  }
  PackedLinear linear;
  linear.outputs = weight.rows() * static_cast<int64_t>(parts.size());
  linear.inputs = weight.columns();
  linear.activations = scheme->activations;
  linear.layout = layout_of(weight);
  linear.scale_type = static_cast<uint8_t>(scale_type_of(weight));
  linear.steps_per_tile = std::max(1, scheme->group / scheme->activation_group());
  linear.segment_bytes = packed_bytes(linear, scheme->group, kSegment);
  linear.block_bytes = packed_bytes(linear, scheme->group, weight.columns());
  linear.data = PageBuffer(static_cast<size_t>(linear.block_bytes * linear.blocks()));
  const LayoutTraits t = traits(linear.layout);
  std::vector<Packer> packers;
  for (const TensorView* part : parts) {
    const int64_t offset = static_cast<int64_t>(packers.size()) * (weight.rows() / kBlockOutputs) * linear.block_bytes;
    packers.push_back({*part, *scheme, linear, t, scale_type_of(weight), StoredCodes(t.codes, t.zero), offset});
  }
  std::vector<Rows> scratch(pool.workers());
  const int64_t part_blocks = (weight.rows() + kBlockOutputs - 1) / kBlockOutputs;
  // Slabs of a few MB of source, so that its pages can go while the rest is packed.
  const int64_t row_bytes = std::max<int64_t>(1, static_cast<int64_t>(weight.bytes()) / weight.rows());
  const int64_t slab = std::clamp<int64_t>((16 << 20) / (row_bytes * kBlockOutputs), 1, linear.blocks());
  for (int64_t begin = 0; begin < linear.blocks(); begin += slab) {
    const int64_t end = std::min(begin + slab, linear.blocks());
    pool.parallel_for(end - begin, 4, [&](int worker, int64_t from, int64_t to) {
      for (int64_t b = begin + from; b < begin + to; b++) {
        packers[b / part_blocks].block(b % part_blocks, scratch[worker]);
      }
    });
    for (int64_t b = begin; checkpoint && b < end;) {
      const TensorView& part = *parts[b / part_blocks];
      const int64_t first = b % part_blocks, last = std::min(first + end - b, part_blocks);
      const int64_t row = first * kBlockOutputs;
      checkpoint->release(rows_of(part, row, std::min(last * kBlockOutputs, part.rows()) - row));
      b += last - first;
    }
  }
  return linear;
}

Result<PackedLinear> pack(const TensorView& weight, ThreadPool& pool, const Checkpoint* checkpoint) {
  const TensorView* part = &weight;
  return pack({&part, 1}, pool, checkpoint);
}

}  // namespace drafthorse
