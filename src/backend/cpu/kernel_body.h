#pragma once
// The kernels, written once over a vector type V of 16 lanes (one lane an output) and compiled for each instruction
// set by the file that defines V. V is in an anonymous namespace there, so every instance stays private to its file.
//
// V offers: Bytes (64 codes), Input (four int8 inputs for every lane), Part (a partial integer sum that holds kDepth
// products, see depth()), Ints and Floats (16 lanes), and the operations used below.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "backend/cpu/kernels.h"

namespace drafthorse::kernel {

#define DH_INLINE [[gnu::always_inline]] inline
#define DH_INLINE_LAMBDA __attribute__((always_inline))

// f(integral_constant 0), …, f(integral_constant N - 1): indices are constants, so arrays of vectors stay in registers.
template <int N, class F>
DH_INLINE void unroll(F&& f) {
  const auto each = [&]<int... i>(std::integer_sequence<int, i...>) DH_INLINE_LAMBDA {
    (f(std::integral_constant<int, i>{}), ...);
  };
  each(std::make_integer_sequence<int, N>{});
}

// Calls f(integral_constant<int, j>, code vector j) for the 8 vectors of a unit, in the order 0 4 1 5 2 6 3 7.
template <class V, Codes kCodes, class F>
DH_INLINE void for_each_code(const uint8_t* p, F&& f) {
  using B = typename V::Bytes;
  auto both = [&]<int j>(std::integral_constant<int, j>, B low, B high) DH_INLINE_LAMBDA {
    f(std::integral_constant<int, j>{}, low);
    f(std::integral_constant<int, j + 4>{}, high);
  };
  // Bits [bit, bit + width) of a plane moved to bit `to`.
  if constexpr (kCodes == Codes::s8) {
    unroll<4>([&]<int j>(std::integral_constant<int, j> c)
                  DH_INLINE_LAMBDA { both(c, V::load(p + 64 * j), V::load(p + 64 * (j + 4))); });
  } else if constexpr (kCodes == Codes::b2) {
    B planes[2] = {V::load(p), V::load(p + 64)};
    unroll<4>([&]<int j>(std::integral_constant<int, j> c) DH_INLINE_LAMBDA {
      both(c, V::template field<2 * (j / 2), 0, 3>(planes[j % 2]),
           V::template field<2 * (j / 2 + 2), 0, 3>(planes[j % 2]));
    });
  } else if constexpr (kCodes == Codes::b3) {
    B planes[2] = {V::load(p), V::load(p + 64)}, third = V::load(p + 128);
    unroll<4>([&]<int j>(std::integral_constant<int, j> c) DH_INLINE_LAMBDA {
      both(c, V::either(V::template field<2 * (j / 2), 0, 3>(planes[j % 2]), V::template field<j, 2, 1>(third)),
           V::either(V::template field<2 * (j / 2 + 2), 0, 3>(planes[j % 2]), V::template field<j + 4, 2, 1>(third)));
    });
  } else if constexpr (kCodes == Codes::b4) {
    unroll<4>([&]<int j>(std::integral_constant<int, j> c) DH_INLINE_LAMBDA {
      B q = V::load(p + 64 * j);
      both(c, V::template field<0, 0, 15>(q), V::template field<4, 0, 15>(q));
    });
  } else if constexpr (kCodes == Codes::e2m1 || kCodes == Codes::iq4) {
    auto table = V::table(kCodes == Codes::iq4 ? kIq4Table : kE2m1Table);
    unroll<4>([&]<int j>(std::integral_constant<int, j> c) DH_INLINE_LAMBDA {
      B q = V::load(p + 64 * j);
      both(c, V::look_up(table, V::template field<0, 0, 15>(q)), V::look_up(table, V::template field<4, 0, 15>(q)));
    });
  } else if constexpr (kCodes == Codes::b5) {
    B fifth = V::load(p + 256);
    unroll<4>([&]<int j>(std::integral_constant<int, j> c) DH_INLINE_LAMBDA {
      B q = V::load(p + 64 * j);
      both(c, V::either(V::template field<0, 0, 15>(q), V::template field<j, 4, 1>(fifth)),
           V::either(V::template field<4, 0, 15>(q), V::template field<j + 4, 4, 1>(fifth)));
    });
  } else {
    static_assert(kCodes == Codes::b6);
    B planes[2] = {V::load(p + 256), V::load(p + 320)};
    unroll<4>([&]<int j>(std::integral_constant<int, j> c) DH_INLINE_LAMBDA {
      B q = V::load(p + 64 * j);
      both(c, V::either(V::template field<0, 0, 15>(q), V::template field<2 * (j / 2), 4, 3>(planes[j % 2])),
           V::either(V::template field<4, 0, 15>(q), V::template field<2 * (j / 2 + 2), 4, 3>(planes[j % 2])));
    });
  }
}

// The decoded vectors of a unit, in the same order.
template <class V, class F>
DH_INLINE void for_each_decoded(const uint8_t* p, F&& f) {
  unroll<8>([&]<int i>(std::integral_constant<int, i>) DH_INLINE_LAMBDA {
    constexpr int j = i / 2 + i % 2 * 4;
    f(std::integral_constant<int, j>{}, V::load(p + 64 * j));
  });
}

// How many code vectors a 16-bit partial sum holds: depth * 2 * max code * 127 < 2^15.
constexpr int depth(Codes codes) { return codes == Codes::b6 ? 2 : codes == Codes::b5 || codes == Codes::e2m1 ? 4 : 8; }

// Integer dots of one unit with R rows. dot[r][h]: h = 0, or for steps of 16 the half of the unit.
template <class V, Codes kCodes, bool kHalves, int R>
struct UnitDots {
  static constexpr int kParts = kHalves || depth(kCodes) < 8 ? 2 : 1;
  typename V::Ints dot[R][kHalves ? 2 : 1];
  typename V::Part part[R][kParts];

  // Code vector j of the step's unit `u`, against inputs x of row 0; rows are `stride` bytes apart.
  template <int u, int j>
  DH_INLINE void add(std::integral_constant<int, u>, std::integral_constant<int, j>, typename V::Bytes code,
                     const int8_t* x, int64_t stride) {
    constexpr int h = kHalves ? j / 4 : 0;
    if constexpr (is_signed(kCodes)) {
      constexpr bool fresh = u == 0 && (kHalves ? j % 4 == 0 : j == 0);
      auto prepared = V::prepare_signed(code);
      unroll<R>([&](auto r) DH_INLINE_LAMBDA {
        auto in = V::input(x + r * stride + 4 * j);
        if constexpr (fresh) dot[r][h] = V::dot_signed_first(prepared, in);
        else dot[r][h] = V::dot_signed(dot[r][h], prepared, in);
      });
    } else {
      constexpr int part_index = kParts == 2 ? j / 4 : 0;
      constexpr int order = kParts == 2 ? j % 4 : (j % 4) * 2 + j / 4;  // position among this part's vectors
      constexpr int kDepth = depth(kCodes);
      constexpr bool first = order % kDepth == 0, last = order % kDepth == kDepth - 1 || order == (kParts == 2 ? 3 : 7);
      // The first part that reaches this dot: of all vectors up to the first full part.
      constexpr bool fresh = u == 0 && order < kDepth && (kHalves || part_index == 0);
      unroll<R>([&](auto r) DH_INLINE_LAMBDA {
        auto& p = part[r][part_index];
        auto in = V::input(x + r * stride + 4 * j);
        p = first ? V::dot_first(code, in) : V::dot(p, code, in);
        if constexpr (last && fresh) dot[r][h] = V::flush_first(p);
        else if constexpr (last) dot[r][h] = V::flush(dot[r][h], p);
      });
    }
  }
};

// What is added to a layout's zero because V's signed dot works on shifted codes.
template <class V, Codes kCodes>
constexpr int zero_shift() {
  return is_signed(kCodes) ? V::kSignedShift : 0;
}

// acc[r] of one step. g: index of the activation group (steps of 32 and 64) or of the 16 inputs.
template <class V, PackedLayout kLayout>
DH_INLINE void finish_step(typename V::Floats& acc, typename V::Ints dot, typename V::Floats scale,
                           typename V::Floats bias, const QuantisedSegment& x, int g) {
  constexpr LayoutTraits t = traits(kLayout);
  constexpr int zero = t.zero + zero_shift<V, t.codes>();
  constexpr bool by16 = t.step == 16;
  if constexpr (zero != 0) dot = V::subtract(dot, zero * (by16 ? x.sum16[g] : x.sum[g]));
  acc = V::fma(V::to_floats(dot), V::mul(scale, V::set(x.d[by16 ? g / 2 : g])), acc);
  if constexpr (t.biased) acc = V::fma(bias, V::set(by16 ? x.d_sum16[g] : x.d_sum[g]), acc);
}

template <class V>
DH_INLINE typename V::Floats load_scales(const uint8_t* p, ScaleType type) {
  switch (type) {
    case ScaleType::f16: return V::load_f16(p);
    case ScaleType::bf16: return V::load_bf16(p);
    case ScaleType::f32: return V::load_f32(p);
    case ScaleType::e8m0: return V::load_e8m0_half(p);
    case ScaleType::e4m3: return V::load_e4m3_half(p);
  }
  __builtin_unreachable();
}

// Scale and bias of one step of a super tile: sub-scale `h` of a unit.
template <class V, PackedLayout kLayout>
DH_INLINE void sub_scales(const uint8_t* sub, int h, typename V::Floats d, typename V::Floats minus_dmin,
                          typename V::Floats& scale, typename V::Floats& bias) {
  constexpr LayoutTraits t = traits(kLayout);
  if constexpr (t.sub == SubScales::scale_min) {
    scale = V::mul(d, V::from_u8(sub));
    bias = V::mul(minus_dmin, V::from_u8(sub + 16));
  } else if constexpr (t.sub == SubScales::signed_scale) {
    scale = V::mul(d, V::from_i8(sub + 16 * h));
  } else {
    scale = V::mul(d, V::from_low_nibbles(sub + 16 * h));
    bias = V::mul(minus_dmin, V::from_high_nibbles(sub + 16 * h));
  }
}

// Calls f(first unit, its codes, its scales or sub-scales, the super tile's head) for the steps of a segment of a block
// and returns where the next segment starts. A step of 64 inputs has two units, a unit may have two steps of 16.
template <PackedLayout kLayout, class F>
DH_INLINE const uint8_t* walk_segment(const PackedLinear& w, const uint8_t* p, int units, F&& f) {
  constexpr LayoutTraits t = traits(kLayout);
  if constexpr (t.tile == Tile::super) {
    for (int u = 0; u < units; u += 8) {
      const uint8_t* head = p;
      p += t.head_bytes();
      for (int i = 0; i < 8; i++, p += t.super_unit_bytes()) f(u + i, p, p + unit_bytes(t.codes), head);
    }
  } else {
    const int bytes = scale_bytes(static_cast<ScaleType>(w.scale_type)) * 16;
    const int tile_units = t.units_per_step() * w.steps_per_tile;
    const int tile_scales = bytes * t.steps_per_unit() * (t.biased ? 2 : 1);
    for (int u = 0; u < units; u += tile_units) {
      const uint8_t* scales = p + tile_units * unit_bytes(t.codes);
      for (int i = 0; i < tile_units; i += t.units_per_step(), p += t.units_per_step() * unit_bytes(t.codes)) {
        f(u + i, p, scales, nullptr);
      }
      p += tile_scales;
    }
  }
  return p;
}

// Scale and bias of step h of the unit(s) that walk_segment announced.
template <class V, PackedLayout kLayout>
DH_INLINE void step_scales(const PackedLinear& w, const uint8_t* scales, int h, const uint8_t* head,
                           typename V::Floats& scale, typename V::Floats& bias) {
  constexpr LayoutTraits t = traits(kLayout);
  if constexpr (t.tile == Tile::super) {
    auto d = V::load_f16(head), minus_dmin = t.biased ? V::load_f16(head + 32) : d;
    sub_scales<V, kLayout>(scales, h, d, minus_dmin, scale, bias);
  } else {
    ScaleType type = static_cast<ScaleType>(w.scale_type);
    const int bytes = 16 * scale_bytes(type);
    scale = load_scales<V>(scales + h * bytes, type);
    if constexpr (t.biased) bias = load_scales<V>(scales + bytes, type);
  }
}

// A last block with fewer than 16 outputs.
[[gnu::noinline, maybe_unused]] static void add_some_lanes(const float* acc, bool first, float* y, int lanes) {
  for (int i = 0; i < lanes; i++) y[i] = (first ? 0.0f : y[i]) + acc[i];
}

// y[r][lane] += acc[r][lane]; the first segment starts from 0. Through memory and in loops: it is a small part of the
// time but, unrolled, would be most of the code.
template <class V, int R>
DH_INLINE void add_segment(const typename V::Floats (&acc)[R], int rows, bool first, float* y, int64_t ldy, int lanes) {
  alignas(64) float sums[R][V::kLanes];
  unroll<R>([&](auto r) DH_INLINE_LAMBDA { V::store(sums[r], acc[r]); });
  y += V::kFirstLane;
  if (lanes >= V::kFirstLane + V::kLanes) {
#pragma GCC unroll 1
    for (int r = 0; r < rows; r++) {
      float* out = y + r * ldy;
      V::store(out, V::add(first ? V::zero_floats() : V::load_floats(out), V::load_floats(sums[r])));
    }
  } else {
#pragma GCC unroll 1
    for (int r = 0; r < rows; r++) add_some_lanes(sums[r], first, y + r * ldy, lanes - V::kFirstLane);
  }
}

DH_INLINE int lanes_of(const PackedLinear& w, int64_t block) {
  return static_cast<int>(std::min<int64_t>(kBlockOutputs, w.outputs - block * kBlockOutputs));
}
DH_INLINE int units_of(const PackedLinear& w, int64_t segment) {
  return static_cast<int>(std::min<int64_t>(kSegment, w.inputs - segment * kSegment) / 32);
}

constexpr int64_t kRowStride = sizeof(QuantisedSegment);

// The same pointer, its origin hidden from the compiler.
template <class T>
DH_INLINE T* forget(T* p) {
  asm volatile("" : "+r"(p));  // volatile: two equal ones may not be merged
  return p;
}

// Few rows: codes are decoded in registers and used at once. With more rows than V::kWholeRows the 16 lanes are taken in
// V::kSplits parts, one after the other, so that the sums of all rows fit the registers. Writes `rows` <= R rows.
template <class V, PackedLayout kLayout, int R>
void direct(const PackedLinear& w, const Activations& a, int row, int rows, float* y, int64_t ldy, int64_t block_begin,
            int64_t block_end) {
  constexpr LayoutTraits t = traits(kLayout);
  constexpr int kSplits = R <= V::kWholeRows ? 1 : V::kSplits;
  using Floats = typename V::template Part0<kSplits>::Floats;
  const int64_t segments = a.segments();
  const uint8_t* p = w.data.data() + block_begin * w.block_bytes;
  for (int64_t b = block_begin; b < block_end; b++) {
    for (int64_t s = 0; s < segments; s++) {
      const QuantisedSegment* inputs = a.quantised(w.activations, s, row);
      Floats acc[kSplits][R];
      unroll<kSplits * R>([&](auto i)
                              DH_INLINE_LAMBDA { acc[i / R][i % R] = V::template Part0<kSplits>::zero_floats(); });
      p = walk_segment<kLayout>(
          w, p, units_of(w, s),
          [&](int u, const uint8_t* codes, const uint8_t* scales, const uint8_t* head) DH_INLINE_LAMBDA {
            V::prefetch(codes + V::kPrefetch, t.units_per_step() * unit_bytes(t.codes) + 32);
            unroll<kSplits>([&]<int split>(std::integral_constant<int, split>) DH_INLINE_LAMBDA {
              using W = typename V::template Split<kSplits, split>;
              // The compiler must not see that both halves read the same inputs: it would keep them all, in memory.
              const QuantisedSegment* x = forget(inputs);
              UnitDots<W, t.codes, t.step == 16, R> dots;
              unroll<t.units_per_step()>([&](auto i) DH_INLINE_LAMBDA {
                const int8_t* q = x->q + 32 * (u + i);
                for_each_code<W, t.codes>(codes + i * unit_bytes(t.codes),
                                          [&](auto j, typename W::Bytes code)
                                              DH_INLINE_LAMBDA { dots.add(i, j, code, q, kRowStride); });
              });
              unroll<t.steps_per_unit()>([&](auto h) DH_INLINE_LAMBDA {
                typename W::Floats scale, bias = W::zero_floats();
                step_scales<W, kLayout>(w, scales, h, head, scale, bias);
                int g = t.step == 64 ? u / 2 : t.step == 16 ? 2 * u + h : u;
                unroll<R>([&](auto r) DH_INLINE_LAMBDA {
                  finish_step<W, kLayout>(acc[split][r], dots.dot[r][h], scale, bias, x[r], g);
                });
              });
            });
          });
      unroll<kSplits>([&]<int split>(std::integral_constant<int, split>) DH_INLINE_LAMBDA {
        using W = typename V::template Split<kSplits, split>;
        add_segment<W, R>(acc[split], rows, s == 0, y + b * kBlockOutputs, ldy, lanes_of(w, b));
      });
    }
  }
}

// A segment of one block, decoded.
struct DecodedSegment {
  alignas(64) uint8_t codes[kSegment / 32][512];
  alignas(64) float scales[kSegment / 16][16];
  alignas(64) float biases[kSegment / 16][16];
};

template <class V, PackedLayout kLayout>
DH_INLINE const uint8_t* decode_segment(const PackedLinear& w, const uint8_t* p, int units, DecodedSegment& out) {
  constexpr LayoutTraits t = traits(kLayout);
  using Floats = typename V::Floats;
  return walk_segment<kLayout>(
      w, p, units, [&](int u, const uint8_t* codes, const uint8_t* scales, const uint8_t* head) DH_INLINE_LAMBDA {
        for (int i = 0; i < t.units_per_step(); i++) {
          const uint8_t* unit = codes + i * unit_bytes(t.codes);
          V::prefetch(unit + V::kPrefetch, unit_bytes(t.codes) + 32);
          uint8_t* to = out.codes[u + i];
          for_each_code<V, t.codes>(unit, [&]<int j>(std::integral_constant<int, j>, typename V::Bytes code)
                                              DH_INLINE_LAMBDA { V::store_bytes(to + 64 * j, code); });
        }
        for (int h = 0; h < t.steps_per_unit(); h++) {
          Floats scale, bias = V::zero_floats();
          step_scales<V, kLayout>(w, scales, h, head, scale, bias);
          int g = t.step == 64 ? u / 2 : t.step == 16 ? 2 * u + h : u;
          V::store(out.scales[g], scale);
          if constexpr (t.biased) V::store(out.biases[g], bias);
        }
      });
}

// R rows against a decoded segment.
template <class V, PackedLayout kLayout, int R>
DH_INLINE void decoded_rows(const DecodedSegment& w, int units, const QuantisedSegment* x, bool first, float* y,
                            int64_t ldy, int lanes) {
  constexpr LayoutTraits t = traits(kLayout);
  using Floats = typename V::Floats;
  Floats acc[R];
  unroll<R>([&](auto r) DH_INLINE_LAMBDA { acc[r] = V::zero_floats(); });
  for (int u = 0; u < units; u += t.units_per_step()) {
    UnitDots<V, t.codes, t.step == 16, R> dots;
    unroll<t.units_per_step()>([&](auto i) DH_INLINE_LAMBDA {
      const int8_t* q = x->q + 32 * (u + i);
      for_each_decoded<V>(w.codes[u + i], [&](auto j, typename V::Bytes code)
                                              DH_INLINE_LAMBDA { dots.add(i, j, code, q, kRowStride); });
    });
    unroll<t.steps_per_unit()>([&](auto h) DH_INLINE_LAMBDA {
      int g = t.step == 64 ? u / 2 : t.step == 16 ? 2 * u + h : u;
      Floats scale = V::load_floats(w.scales[g]), bias = V::zero_floats();
      if constexpr (t.biased) bias = V::load_floats(w.biases[g]);
      unroll<R>([&](auto r)
                    DH_INLINE_LAMBDA { finish_step<V, kLayout>(acc[r], dots.dot[r][h], scale, bias, x[r], g); });
    });
  }
  add_segment<V, R>(acc, R, first, y, ldy, lanes);
}

// Many rows: a segment of a block is decoded once and used by all rows of a row tile, whose inputs stay in L2.
template <class V, PackedLayout kLayout>
void many(const PackedLinear& w, const Activations& a, int row_begin, int row_end, float* y, int64_t ldy,
          int64_t block_begin, int64_t block_end) {
  constexpr int kRowTile = 256, kRows = V::kManyRows;
  DecodedSegment decoded;
  const int64_t segments = a.segments();
  for (int tile = row_begin; tile < row_end; tile += kRowTile) {
    const int tile_end = std::min(tile + kRowTile, row_end);
    for (int64_t s = 0; s < segments; s++) {
      const int units = units_of(w, s);
      for (int64_t b = block_begin; b < block_end; b++) {
        decode_segment<V, kLayout>(w, w.data.data() + b * w.block_bytes + s * w.segment_bytes, units, decoded);
        float* out = y + b * kBlockOutputs - row_begin * ldy;
        int r = tile;
        auto rows = [&]<int R>(std::integral_constant<int, R>) {
          decoded_rows<V, kLayout, R>(decoded, units, a.quantised(w.activations, s, r), s == 0, out + r * ldy, ldy,
                                      lanes_of(w, b));
          r += R;  // unseen by clang-tidy, which takes the loop below for an endless one
        };
        while (tile_end - r >= kRows) rows(std::integral_constant<int, kRows>{});  // NOLINT(bugprone-infinite-loop)
        if constexpr (kRows > 4) {
          if (tile_end - r >= 4) rows(std::integral_constant<int, 4>{});
        }
        if (tile_end - r >= 2) rows(std::integral_constant<int, 2>{});
        if (tile_end - r >= 1) rows(std::integral_constant<int, 1>{});
      }
    }
  }
}

// How many rows the kernel computes that serves `rows`: kernels are made for some counts only, and the surplus is
// computed on whatever lies behind the rows (Activations keeps kSpareRows there) and thrown away.
template <PackedLayout kLayout>
constexpr int kernel_rows(int rows) {
  constexpr PackedLayout k = kLayout;
  using P = PackedLayout;
  constexpr bool common = k == P::b4_32 || k == P::b4_64 || k == P::b8_64 || k == P::q4_0 || k == P::q5_0 ||
                          k == P::q8_0 || k == P::q4_k || k == P::q5_k || k == P::q6_k;
  return rows <= 2 ? rows : rows == 3 && common ? 3 : rows <= 4 ? 4 : rows <= 6 && common ? 6 : 8;
}

template <class V, PackedLayout kLayout>
void matmul_quantised(const PackedLinear& w, const Activations& a, int row_begin, int row_end, float* y, int64_t ldy,
                      int64_t block_begin, int64_t block_end) {
  const int rows = row_end - row_begin;
  if (rows > V::kDirectRows) return many<V, kLayout>(w, a, row_begin, row_end, y, ldy, block_begin, block_end);
  unroll<V::kDirectRows>([&](auto i) {
    constexpr int R = i + 1;
    if constexpr (kernel_rows<kLayout>(R) == R) {
      if (kernel_rows<kLayout>(rows) == R) direct<V, kLayout, R>(w, a, row_begin, rows, y, ldy, block_begin, block_end);
    }
  });
}

// Float formats: R rows, inputs ascending.
template <class V, PackedLayout kLayout, int R>
void float_rows(const PackedLinear& w, const Activations& a, int row, float* y, int64_t ldy, int64_t block_begin,
                int64_t block_end) {
  using Floats = typename V::Floats;
  constexpr int kValueBytes = kLayout == PackedLayout::f32 ? 64 : kLayout == PackedLayout::mxfp8 ? 16 : 32;
  const uint8_t* p = w.data.data() + block_begin * w.block_bytes;
  for (int64_t b = block_begin; b < block_end; b++) {
    for (int64_t s = 0; s < a.segments(); s++) {
      const float* x = a.floats(s, row);
      const int inputs = static_cast<int>(std::min<int64_t>(kSegment, w.inputs - s * kSegment));
      Floats acc[R], scale = V::zero_floats();
      unroll<R>([&](auto r) DH_INLINE_LAMBDA { acc[r] = V::zero_floats(); });
      for (int k = 0; k < inputs; k++, p += kValueBytes) {
        Floats value;
        if constexpr (kLayout == PackedLayout::mxfp8) {
          if (k % 32 == 0) scale = V::load_e8m0_half(p + 32 * kValueBytes);
          value = V::mul(V::mul(V::load_e4m3_half(p), V::set(4.0f)), scale);
          if (k % 32 == 31) p += 16;
        } else {
          value = load_scales<V>(p, kLayout == PackedLayout::f32   ? ScaleType::f32
                                    : kLayout == PackedLayout::f16 ? ScaleType::f16
                                                                   : ScaleType::bf16);
        }
        if (k % 2 == 0) V::prefetch(p + V::kPrefetch, 2 * kValueBytes);
        unroll<R>([&](auto r) DH_INLINE_LAMBDA { acc[r] = V::fma(value, V::set(x[r * kSegment + k]), acc[r]); });
      }
      add_segment<V, R>(acc, R, s == 0, y + b * kBlockOutputs, ldy, lanes_of(w, b));
    }
  }
}

template <class V, PackedLayout kLayout>
void matmul_floats(const PackedLinear& w, const Activations& a, int row_begin, int row_end, float* y, int64_t ldy,
                   int64_t block_begin, int64_t block_end) {
  int r = row_begin;
  auto rows = [&]<int R>(std::integral_constant<int, R>) {
    float_rows<V, kLayout, R>(w, a, r, y + (r - row_begin) * ldy, ldy, block_begin, block_end);
    r += R;  // unseen by clang-tidy, which takes the loop below for an endless one
  };
  while (row_end - r >= 4) rows(std::integral_constant<int, 4>{});  // NOLINT(bugprone-infinite-loop)
  if (row_end - r >= 2) rows(std::integral_constant<int, 2>{});
  if (row_end - r >= 1) rows(std::integral_constant<int, 1>{});
}

// d and 1 / d of a group whose largest magnitude has these bits (scheme.h). A non-finite input makes d NaN, so that it
// shows in every output; id is 0 where all q are 0.
struct GroupScale {
  float d, id;
};
DH_INLINE GroupScale group_scale(int32_t max_bits) {
  if (max_bits >= 0x7f800000) return {std::bit_cast<float>(0x7fc00000), 0.0f};
  float d = std::bit_cast<float>(max_bits) / 127.0f, id = d > 0 ? 1.0f / d : 0.0f;
  if (std::bit_cast<int32_t>(id) == 0x7f800000) return {0.0f, 0.0f};
  return {d, id};
}

// Scale and sums of group g, once q and sum16 are there.
DH_INLINE void finish_group(int g, int group, float d, QuantisedSegment& out) {
  out.d[g] = d;
  int32_t sum = 0;
  for (int i = g * group / 16; i < (g + 1) * group / 16; i++) {
    sum += out.sum16[i];
    out.d_sum16[i] = d * static_cast<float>(out.sum16[i]);
  }
  out.sum[g] = sum;
  out.d_sum[g] = d * static_cast<float>(sum);
}
DH_INLINE void empty_group(int g, int group, float d, QuantisedSegment& out) {
  std::memset(out.q + g * group, 0, group);
  for (int i = g * group / 16; i < (g + 1) * group / 16; i++) out.sum16[i] = 0;
  finish_group(g, group, d, out);
}

// Tables with the layouts from `first` to `last`, others null.
template <class V, PackedLayout first, PackedLayout last>
MatmulTable quantised_table() {
  MatmulTable table{};
  unroll<static_cast<int>(last) - static_cast<int>(first) + 1>([&](auto i) {
    constexpr int index = static_cast<int>(first) + i;
    table[index] = matmul_quantised<V, static_cast<PackedLayout>(index)>;
  });
  return table;
}

template <class V>
MatmulTable float_table() {
  MatmulTable table{};
  unroll<4>([&](auto i) {
    constexpr int index = static_cast<int>(PackedLayout::f32) + i;
    table[index] = matmul_floats<V, static_cast<PackedLayout>(index)>;
  });
  return table;
}

inline MatmulTable merged(std::initializer_list<MatmulTable> tables) {
  MatmulTable all{};
  for (const MatmulTable& table : tables) {
    for (int i = 0; i < kPackedLayouts; i++) {
      if (table[i]) all[i] = table[i];
    }
  }
  return all;
}

}  // namespace drafthorse::kernel
