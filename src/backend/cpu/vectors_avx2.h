#pragma once
// AVX2: 16 lanes are two vectors of 8. 4-bit codes are summed in 16 bits over 32 inputs (15 * 127 * 2 * 8 < 2^15).
// For files that are compiled for AVX2; everything here is private to the file that includes it.

#include <immintrin.h>

#include "backend/cpu/kernel_body.h"

namespace drafthorse {
namespace {

// `n` vectors of 8 lanes of bytes (8 x 4), partial sums (8 x 2 of 16 bits), integers or floats.
template <int n>
struct Vectors {
  struct Bytes {
    __m256i v[n];
  };
  struct Part {
    __m256i v[n];
  };
  struct Ints {
    __m256i v[n];
  };
  struct Floats {
    __m256 v[n];
  };
};

// `n` vectors of 8 lanes, from lane `first` on: all 16 lanes (n = 2), or one half of them (n = 1).
template <int n, int first>
struct Avx2 {
  using Bytes = typename Vectors<n>::Bytes;
  using Part = typename Vectors<n>::Part;
  using Ints = typename Vectors<n>::Ints;
  using Floats = typename Vectors<n>::Floats;
  struct Prepared {
    Bytes magnitude, code;
  };
  using Input = __m256i;
  static constexpr int kLanes = 8 * n, kFirstLane = first;
  static constexpr int kSignedShift = 0, kWholeRows = 2, kSplits = 2, kDirectRows = 8, kManyRows = 4, kPrefetch = 2048;
  template <int splits, int i>
  using Split = std::conditional_t<splits == 1, Avx2<2, 0>, Avx2<1, 8 * i>>;
  template <int splits>
  using Part0 = Split<splits, 0>;

  // T of f(0), …, f(n - 1).
  template <class T, class F>
  DH_INLINE static T each(F&& f) {
    if constexpr (n == 1) return {f(0)};
    else return {f(0), f(1)};
  }
  DH_INLINE static __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  DH_INLINE static __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  DH_INLINE static __m128i load64(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }

  DH_INLINE static Bytes load(const uint8_t* p) {
    return each<Bytes>([&](int i) DH_INLINE_LAMBDA { return load256(p + 4 * first + 32 * i); });
  }
  DH_INLINE static void store_bytes(uint8_t* p, Bytes b) {
    for (int i = 0; i < n; i++) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 4 * first + 32 * i), b.v[i]);
  }
  DH_INLINE static void prefetch(const uint8_t* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
  }
  // The `mask`-wide field at bit `from` of every byte, moved to bit `to`.
  template <int from, int to, int mask>
  DH_INLINE static Bytes field(Bytes b) {
    return each<Bytes>([&](int i) DH_INLINE_LAMBDA {
      __m256i v = b.v[i];
      if constexpr (from > to) v = _mm256_srli_epi16(v, from - to);
      if constexpr (from < to) v = _mm256_slli_epi16(v, to - from);
      return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask << to)));
    });
  }
  DH_INLINE static Bytes either(Bytes x, Bytes y) {
    return each<Bytes>([&](int i) DH_INLINE_LAMBDA { return _mm256_or_si256(x.v[i], y.v[i]); });
  }
  DH_INLINE static __m256i table(const int8_t* values) { return _mm256_broadcastsi128_si256(load128(values)); }
  DH_INLINE static Bytes look_up(__m256i table, Bytes b) {
    return each<Bytes>([&](int i) DH_INLINE_LAMBDA { return _mm256_shuffle_epi8(table, b.v[i]); });
  }

  DH_INLINE static Input input(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
  }
  // The empty asm keeps a sum a chain: left alone, the compiler turns it into a tree and runs out of registers.
  DH_INLINE static __m256i pinned(__m256i v) {
    asm("" : "+x"(v));
    return v;
  }
  DH_INLINE static Part dot_first(Bytes w, Input x) {
    return each<Part>([&](int i) DH_INLINE_LAMBDA { return pinned(_mm256_maddubs_epi16(w.v[i], x)); });
  }
  DH_INLINE static Part dot(Part s, Bytes w, Input x) {
    return each<Part>(
        [&](int i) DH_INLINE_LAMBDA { return pinned(_mm256_add_epi16(s.v[i], _mm256_maddubs_epi16(w.v[i], x))); });
  }
  DH_INLINE static Ints flush_first(Part p) {
    return each<Ints>([&](int i) DH_INLINE_LAMBDA { return pinned(_mm256_madd_epi16(p.v[i], _mm256_set1_epi16(1))); });
  }
  DH_INLINE static Ints flush(Ints s, Part p) {
    return each<Ints>([&](int i) DH_INLINE_LAMBDA {
      return pinned(_mm256_add_epi32(s.v[i], _mm256_madd_epi16(p.v[i], _mm256_set1_epi16(1))));
    });
  }
  // |w| as unsigned bytes (128 for -128) times x with w's sign: one pair fits 16 bits (2 * 128 * 127).
  DH_INLINE static Prepared prepare_signed(Bytes w) {
    return {each<Bytes>([&](int i) DH_INLINE_LAMBDA { return _mm256_abs_epi8(w.v[i]); }), w};
  }
  DH_INLINE static Part signed_pairs(Prepared w, Input x) {
    return each<Part>([&](int i) DH_INLINE_LAMBDA {
      return _mm256_maddubs_epi16(w.magnitude.v[i], _mm256_sign_epi8(x, w.code.v[i]));
    });
  }
  DH_INLINE static Ints dot_signed_first(Prepared w, Input x) { return flush_first(signed_pairs(w, x)); }
  DH_INLINE static Ints dot_signed(Ints s, Prepared w, Input x) { return flush(s, signed_pairs(w, x)); }
  DH_INLINE static Ints subtract(Ints s, int32_t x) {
    return each<Ints>([&](int i) DH_INLINE_LAMBDA { return _mm256_sub_epi32(s.v[i], _mm256_set1_epi32(x)); });
  }

  template <class F>
  DH_INLINE static Floats floats(F&& f) {
    return each<Floats>(f);
  }
  DH_INLINE static Floats zero_floats() {
    return floats([](int) DH_INLINE_LAMBDA { return _mm256_setzero_ps(); });
  }
  DH_INLINE static Floats set(float x) {
    return floats([&](int) DH_INLINE_LAMBDA { return _mm256_set1_ps(x); });
  }
  DH_INLINE static Floats to_floats(Ints s) {
    return floats([&](int i) DH_INLINE_LAMBDA { return _mm256_cvtepi32_ps(s.v[i]); });
  }
  DH_INLINE static Floats add(Floats x, Floats y) {
    return floats([&](int i) DH_INLINE_LAMBDA { return _mm256_add_ps(x.v[i], y.v[i]); });
  }
  DH_INLINE static Floats mul(Floats x, Floats y) {
    return floats([&](int i) DH_INLINE_LAMBDA { return _mm256_mul_ps(x.v[i], y.v[i]); });
  }
  DH_INLINE static Floats fma(Floats x, Floats y, Floats z) {
    return floats([&](int i) DH_INLINE_LAMBDA { return _mm256_fmadd_ps(x.v[i], y.v[i], z.v[i]); });
  }
  // Of an array that starts at this vector's first lane.
  DH_INLINE static Floats load_floats(const float* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return _mm256_loadu_ps(p + 8 * i); });
  }
  DH_INLINE static void store(float* p, Floats v) {
    for (int i = 0; i < n; i++) _mm256_storeu_ps(p + 8 * i, v.v[i]);
  }
  // Of 16 lanes' scales.
  DH_INLINE static Floats load_f32(const uint8_t* p) { return load_floats(reinterpret_cast<const float*>(p) + first); }
  DH_INLINE static Floats load_f16(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return _mm256_cvtph_ps(load128(p + 2 * first + 16 * i)); });
  }
  DH_INLINE static Floats load_bf16(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p + 2 * first + 16 * i)), 16));
    });
  }
  DH_INLINE static __m256i widen(const uint8_t* p, int i) { return _mm256_cvtepu8_epi32(load64(p + first + 8 * i)); }
  // 2^(e - 128): for e >= 2 the exponent field e - 1, below that a subnormal.
  DH_INLINE static Floats load_e8m0_half(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA {
      const __m256i e = widen(p, i), one = _mm256_set1_epi32(1);
      __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
      __m256i subnormal = _mm256_slli_epi32(_mm256_add_epi32(_mm256_and_si256(e, one), one), 21);
      return _mm256_castsi256_ps(_mm256_max_epi32(normal, subnormal));
    });
  }
  // E4M3's bits at the place of f16's are the value times 2^-8.
  DH_INLINE static Floats load_e4m3_half(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA {
      __m128i wide = _mm_cvtepu8_epi16(load64(p + first + 8 * i));
      __m128i magnitude = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x7f)), 7);
      __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
      return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(magnitude, sign)), _mm256_set1_ps(128.0f));
    });
  }
  DH_INLINE static Floats from_u8(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return _mm256_cvtepi32_ps(widen(p, i)); });
  }
  DH_INLINE static Floats from_i8(const uint8_t* p) {
    return floats([&](int i)
                      DH_INLINE_LAMBDA { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load64(p + first + 8 * i))); });
  }
  DH_INLINE static Floats from_low_nibbles(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA {
      return _mm256_cvtepi32_ps(_mm256_and_si256(widen(p, i), _mm256_set1_epi32(15)));
    });
  }
  DH_INLINE static Floats from_high_nibbles(const uint8_t* p) {
    return floats([&](int i) DH_INLINE_LAMBDA { return _mm256_cvtepi32_ps(_mm256_srli_epi32(widen(p, i), 4)); });
  }
};
using Whole = Avx2<2, 0>;

}  // namespace
}  // namespace drafthorse
