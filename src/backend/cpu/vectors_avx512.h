#pragma once
// AVX-512 with VNNI: one vector holds the 16 lanes, and a dot of four adds straight into 32 bits.
// For files that are compiled for it; everything here is private to the file that includes it.

// g++ 12 takes the deliberately undefined operands inside this header for uninitialised variables.
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include "backend/cpu/kernel_body.h"

namespace drafthorse {
namespace {

struct Avx512 {
  using Bytes = __m512i;
  using Part = __m512i;
  using Ints = __m512i;
  using Floats = __m512;
  using Prepared = __m512i;
  using Input = __m512i;
  static constexpr int kLanes = 16, kFirstLane = 0;
  // Signed codes are multiplied as code + 128, which is unsigned.
  static constexpr int kSignedShift = 128, kWholeRows = 8, kSplits = 1, kDirectRows = 8, kManyRows = 8,
                       kPrefetch = 2048;
  template <int, int>
  using Split = Avx512;
  template <int>
  using Part0 = Avx512;

  DH_INLINE static Bytes load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  DH_INLINE static void store_bytes(uint8_t* p, Bytes b) { _mm512_storeu_si512(p, b); }
  DH_INLINE static void prefetch(const uint8_t* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
  }
  // The `mask`-wide field at bit `from` of every byte, moved to bit `to`.
  template <int from, int to, int mask>
  DH_INLINE static Bytes field(Bytes v) {
    if constexpr (from > to) v = _mm512_srli_epi16(v, from - to);
    if constexpr (from < to) v = _mm512_slli_epi16(v, to - from);
    return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(mask << to)));
  }
  DH_INLINE static Bytes either(Bytes x, Bytes y) { return _mm512_or_si512(x, y); }
  DH_INLINE static __m512i table(const int8_t* values) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  }
  DH_INLINE static Bytes look_up(__m512i table, Bytes v) { return _mm512_shuffle_epi8(table, v); }

  DH_INLINE static Input input(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
  }
  DH_INLINE static Part dot_first(Bytes w, Input x) { return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x); }
  DH_INLINE static Part dot(Part s, Bytes w, Input x) { return _mm512_dpbusd_epi32(s, w, x); }
  DH_INLINE static Ints flush_first(Part p) { return p; }
  DH_INLINE static Ints flush(Ints s, Part p) { return _mm512_add_epi32(s, p); }
  DH_INLINE static Prepared prepare_signed(Bytes w) {
    return _mm512_xor_si512(w, _mm512_set1_epi8(static_cast<char>(0x80)));
  }
  DH_INLINE static Ints dot_signed_first(Prepared w, Input x) { return dot_first(w, x); }
  DH_INLINE static Ints dot_signed(Ints s, Prepared w, Input x) { return dot(s, w, x); }
  DH_INLINE static Ints subtract(Ints s, int32_t x) { return _mm512_sub_epi32(s, _mm512_set1_epi32(x)); }

  DH_INLINE static Floats zero_floats() { return _mm512_setzero_ps(); }
  DH_INLINE static Floats set(float x) { return _mm512_set1_ps(x); }
  DH_INLINE static Floats to_floats(Ints s) { return _mm512_cvtepi32_ps(s); }
  DH_INLINE static Floats add(Floats x, Floats y) { return _mm512_add_ps(x, y); }
  DH_INLINE static Floats mul(Floats x, Floats y) { return _mm512_mul_ps(x, y); }
  DH_INLINE static Floats fma(Floats x, Floats y, Floats z) { return _mm512_fmadd_ps(x, y, z); }
  DH_INLINE static Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
  DH_INLINE static void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  DH_INLINE static Floats load_f32(const uint8_t* p) { return _mm512_loadu_ps(p); }
  DH_INLINE static __m256i load256(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  DH_INLINE static __m128i load128(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  DH_INLINE static Floats load_f16(const uint8_t* p) { return _mm512_cvtph_ps(load256(p)); }
  DH_INLINE static Floats load_bf16(const uint8_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(p)), 16));
  }
  DH_INLINE static __m512i widen(const uint8_t* p) { return _mm512_cvtepu8_epi32(load128(p)); }
  // 2^(e - 128): for e >= 2 the exponent field e - 1, below that a subnormal.
  DH_INLINE static Floats load_e8m0_half(const uint8_t* p) {
    const __m512i e = widen(p), one = _mm512_set1_epi32(1);
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    __m512i subnormal = _mm512_slli_epi32(_mm512_add_epi32(_mm512_and_si512(e, one), one), 21);
    return _mm512_castsi512_ps(_mm512_max_epi32(normal, subnormal));
  }
  // E4M3's bits at the place of f16's are the value times 2^-8.
  DH_INLINE static Floats load_e4m3_half(const uint8_t* p) {
    __m256i wide = _mm256_cvtepu8_epi16(load128(p));
    __m256i magnitude = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x7f)), 7);
    __m256i sign = _mm256_slli_epi16(_mm256_and_si256(wide, _mm256_set1_epi16(0x80)), 8);
    return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(magnitude, sign)), _mm512_set1_ps(128.0f));
  }
  DH_INLINE static Floats from_u8(const uint8_t* p) { return _mm512_cvtepi32_ps(widen(p)); }
  DH_INLINE static Floats from_i8(const uint8_t* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(p))); }
  DH_INLINE static Floats from_low_nibbles(const uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(widen(p), _mm512_set1_epi32(15)));
  }
  DH_INLINE static Floats from_high_nibbles(const uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_srli_epi32(widen(p), 4));
  }
};

}  // namespace
}  // namespace drafthorse
