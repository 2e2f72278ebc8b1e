#pragma once
// NEON with the dot product instructions (Armv8.2 FEAT_DotProd): 16 lanes are four vectors of 4, and a signed dot of four
// adds straight into 32 bits. Every code fits int8, unsigned ones too, so all formats take the same instruction.
// For files that are compiled for it; everything here is private to the file that includes it.

#include <arm_neon.h>

#include "backend/cpu/kernel_body.h"

namespace drafthorse {
namespace {

// `n` vectors of 4 lanes of bytes (4 x 4), integers or floats.
template <int n>
struct NeonVectors {
  struct Bytes {
    uint8x16_t v[n];
  };
  struct Ints {
    int32x4_t v[n];
  };
  struct Floats {
    float32x4_t v[n];
  };
};

// `n` vectors of 4 lanes, from lane `first` on: all 16 lanes (n = 4), or one half of them (n = 2).
template <int n, int first>
struct Neon {
  using Bytes = typename NeonVectors<n>::Bytes;
  using Ints = typename NeonVectors<n>::Ints;
  using Floats = typename NeonVectors<n>::Floats;
  using Part = Ints;
  using Prepared = Bytes;
  using Input = int8x16_t;
  static constexpr int kLanes = 4 * n, kFirstLane = first;
  // A row takes a sum and a dot, 2 n of the 32 registers.
  static constexpr int kSignedShift = 0, kWholeRows = 2, kSplits = 2, kDirectRows = 8, kManyRows = 4, kPrefetch = 2048;
  template <int splits, int i>
  using Split = std::conditional_t<splits == 1, Neon<4, 0>, Neon<2, 8 * i>>;
  template <int splits>
  using Part0 = Split<splits, 0>;

  // T of f(0), …, f(n - 1).
  template <class T, class F>
  DH_INLINE static T each(F&& f) {
    if constexpr (n == 2) return {{f(0), f(1)}};
    else return {{f(0), f(1), f(2), f(3)}};
  }

  DH_INLINE static Bytes load(const uint8_t* p) {
    return each<Bytes>([&](int i) DH_INLINE_LAMBDA { return vld1q_u8(p + 4 * first + 16 * i); });
  }
  DH_INLINE static void store_bytes(uint8_t* p, Bytes b) {
    kernel::unroll<n>([&](auto i) DH_INLINE_LAMBDA { vst1q_u8(p + 4 * first + 16 * i, b.v[i]); });
  }
  DH_INLINE static void prefetch(const uint8_t* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
  }
  // The `mask`-wide field at bit `from` of every byte, moved to bit `to`.
  template <int from, int to, int mask>
  DH_INLINE static Bytes field(Bytes b) {
    return each<Bytes>([&](int i) DH_INLINE_LAMBDA {
      uint8x16_t v = b.v[i];
      if constexpr (from > to) v = vshrq_n_u8(v, from - to);
      if constexpr (from < to) v = vshlq_n_u8(v, to - from);
      // Bits that the shift moved out of the byte need no mask.
      constexpr int left = from > to ? 0xff >> (from - to) : 0xff << (to - from) & 0xff;
      if constexpr (left != mask << to) v = vandq_u8(v, vdupq_n_u8(mask << to));
      return v;
    });
  }
  DH_INLINE static Bytes either(Bytes x, Bytes y) {
    return each<Bytes>([&](int i) DH_INLINE_LAMBDA { return vorrq_u8(x.v[i], y.v[i]); });
  }
  DH_INLINE static uint8x16_t table(const int8_t* values) { return vreinterpretq_u8_s8(vld1q_s8(values)); }
  DH_INLINE static Bytes look_up(uint8x16_t table, Bytes b) {
    return each<Bytes>([&](int i) DH_INLINE_LAMBDA { return vqtbl1q_u8(table, b.v[i]); });
  }

  DH_INLINE static Input input(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
  }
  DH_INLINE static Part dot_first(Bytes w, Input x) {
    return dot(each<Ints>([](int) DH_INLINE_LAMBDA { return vdupq_n_s32(0); }), w, x);
  }
  DH_INLINE static Part dot(Part s, Bytes w, Input x) {
    return each<Ints>([&](int i) DH_INLINE_LAMBDA { return vdotq_s32(s.v[i], vreinterpretq_s8_u8(w.v[i]), x); });
  }
  DH_INLINE static Ints flush_first(Part p) { return p; }
  DH_INLINE static Ints flush(Ints s, Part p) {
    return each<Ints>([&](int i) DH_INLINE_LAMBDA { return vaddq_s32(s.v[i], p.v[i]); });
  }
  DH_INLINE static Prepared prepare_signed(Bytes w) { return w; }
  DH_INLINE static Ints dot_signed_first(Prepared w, Input x) { return dot_first(w, x); }
  DH_INLINE static Ints dot_signed(Ints s, Prepared w, Input x) { return dot(s, w, x); }
  DH_INLINE static Ints subtract(Ints s, int32_t x) {
    return each<Ints>([&](int i) DH_INLINE_LAMBDA { return vsubq_s32(s.v[i], vdupq_n_s32(x)); });
  }

  template <class F>
  DH_INLINE static Floats floats(F&& f) {
    return each<Floats>(f);
  }
  DH_INLINE static Floats zero_floats() {
    return floats([](int) DH_INLINE_LAMBDA { return vdupq_n_f32(0.0f); });
  }
  DH_INLINE static Floats set(float x) {
    return floats([&](int) DH_INLINE_LAMBDA { return vdupq_n_f32(x); });
  }
  DH_INLINE static Floats to_floats(Ints s) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vcvtq_f32_s32(s.v[i]); });
  }
  DH_INLINE static Floats add(Floats x, Floats y) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vaddq_f32(x.v[i], y.v[i]); });
  }
  DH_INLINE static Floats mul(Floats x, Floats y) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vmulq_f32(x.v[i], y.v[i]); });
  }
  DH_INLINE static Floats fma(Floats x, Floats y, Floats z) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vfmaq_f32(z.v[i], x.v[i], y.v[i]); });
  }
  // Of an array that starts at this vector's first lane.
  DH_INLINE static Floats load_floats(const float* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vld1q_f32(p + 4 * i); });
  }
  DH_INLINE static void store(float* p, Floats v) {
    kernel::unroll<n>([&](auto i) DH_INLINE_LAMBDA { vst1q_f32(p + 4 * i, v.v[i]); });
  }
  // Of 16 lanes' scales.
  DH_INLINE static Floats load_f32(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vreinterpretq_f32_u8(vld1q_u8(p + 4 * first + 16 * i)); });
  }
  DH_INLINE static uint16x4_t load_u16(const uint8_t* p, int i) {
    return vreinterpret_u16_u8(vld1_u8(p + 2 * first + 8 * i));
  }
  DH_INLINE static Floats load_f16(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vcvt_f32_f16(vreinterpret_f16_u16(load_u16(p, i))); });
  }
  DH_INLINE static Floats load_bf16(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vreinterpretq_f32_u32(vshll_n_u16(load_u16(p, i), 16)); });
  }
  // Four bytes, in the low half of a vector of 8.
  DH_INLINE static uint8x8_t four(const uint8_t* p, int i) {
    uint32_t bytes;
    std::memcpy(&bytes, p + first + 4 * i, 4);
    return vcreate_u8(bytes);
  }
  DH_INLINE static uint16x4_t widen16(const uint8_t* p, int i) { return vget_low_u16(vmovl_u8(four(p, i))); }
  DH_INLINE static uint32x4_t widen(const uint8_t* p, int i) { return vmovl_u16(widen16(p, i)); }
  // 2^(e - 128): for e >= 2 the exponent field e - 1, below that a subnormal.
  DH_INLINE static Floats load_e8m0_half(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA {
      const int32x4_t e = vreinterpretq_s32_u32(widen(p, i)), one = vdupq_n_s32(1);
      int32x4_t normal = vshlq_n_s32(vsubq_s32(e, one), 23);
      int32x4_t subnormal = vshlq_n_s32(vaddq_s32(vandq_s32(e, one), one), 21);
      return vreinterpretq_f32_s32(vmaxq_s32(normal, subnormal));
    });
  }
  // E4M3's bits at the place of f16's are the value times 2^-8.
  DH_INLINE static Floats load_e4m3_half(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA {
      const uint16x4_t wide = widen16(p, i);
      uint16x4_t magnitude = vshl_n_u16(vand_u16(wide, vdup_n_u16(0x7f)), 7);
      uint16x4_t sign = vshl_n_u16(vand_u16(wide, vdup_n_u16(0x80)), 8);
      return vmulq_f32(vcvt_f32_f16(vreinterpret_f16_u16(vorr_u16(magnitude, sign))), vdupq_n_f32(128.0f));
    });
  }
  DH_INLINE static Floats from_u8(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vcvtq_f32_u32(widen(p, i)); });
  }
  DH_INLINE static Floats from_i8(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA {
      return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four(p, i))))));
    });
  }
  DH_INLINE static Floats from_low_nibbles(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vcvtq_f32_u32(vandq_u32(widen(p, i), vdupq_n_u32(15))); });
  }
  DH_INLINE static Floats from_high_nibbles(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return vcvtq_f32_u32(vshrq_n_u32(widen(p, i), 4)); });
  }
};
using Whole = Neon<4, 0>;

}  // namespace
}  // namespace drafthorse
