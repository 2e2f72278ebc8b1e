// AVX2: 16 lanes are two vectors of 8. 4-bit codes are summed in 16 bits over 32 inputs (15 * 127 * 2 * 8 < 2^15).

#if defined(__x86_64__)

#include <immintrin.h>

#include "backend/cpu/kernel_body.h"

namespace drafthorse {
namespace {

struct Avx2 {
  struct Bytes { __m256i a, b; };
  struct Part { __m256i a, b; };
  struct Ints { __m256i a, b; };
  struct Floats { __m256 a, b; };
  struct Prepared { __m256i magnitude_a, magnitude_b, a, b; };
  using Input = __m256i;
  static constexpr int kSignedShift = 0, kDirectRows = 2, kManyRows = 4, kPrefetch = 2048;

  DH_INLINE static __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  DH_INLINE static __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  DH_INLINE static __m128i load64(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }

  DH_INLINE static Bytes load(const uint8_t* p) { return {load256(p), load256(p + 32)}; }
  DH_INLINE static void store_bytes(uint8_t* p, Bytes v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), v.b);
  }
  DH_INLINE static void prefetch(const uint8_t* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
  }
  // The `mask`-wide field at bit `from` of every byte, moved to bit `to`.
  template <int from, int to, int mask>
  DH_INLINE static __m256i field(__m256i v) {
    if constexpr (from > to) v = _mm256_srli_epi16(v, from - to);
    if constexpr (from < to) v = _mm256_slli_epi16(v, to - from);
    return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask << to)));
  }
  template <int from, int to, int mask>
  DH_INLINE static Bytes field(Bytes v) { return {field<from, to, mask>(v.a), field<from, to, mask>(v.b)}; }
  DH_INLINE static Bytes either(Bytes x, Bytes y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
  DH_INLINE static __m256i table(const int8_t* values) { return _mm256_broadcastsi128_si256(load128(values)); }
  DH_INLINE static Bytes look_up(__m256i table, Bytes v) {
    return {_mm256_shuffle_epi8(table, v.a), _mm256_shuffle_epi8(table, v.b)};
  }

  DH_INLINE static Input input(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
  }
  DH_INLINE static Part dot_first(Bytes w, Input x) { return {_mm256_maddubs_epi16(w.a, x), _mm256_maddubs_epi16(w.b, x)}; }
  DH_INLINE static Part dot(Part s, Bytes w, Input x) {
    return {_mm256_add_epi16(s.a, _mm256_maddubs_epi16(w.a, x)), _mm256_add_epi16(s.b, _mm256_maddubs_epi16(w.b, x))};
  }
  DH_INLINE static Ints flush(Ints s, Part p) {
    const __m256i one = _mm256_set1_epi16(1);
    return {_mm256_add_epi32(s.a, _mm256_madd_epi16(p.a, one)), _mm256_add_epi32(s.b, _mm256_madd_epi16(p.b, one))};
  }
  // |w| as unsigned bytes (128 for -128) times x with w's sign: one pair fits 16 bits (2 * 128 * 127).
  DH_INLINE static Prepared prepare_signed(Bytes w) { return {_mm256_abs_epi8(w.a), _mm256_abs_epi8(w.b), w.a, w.b}; }
  DH_INLINE static Ints dot_signed(Ints s, Prepared w, Input x) {
    return flush(s, {_mm256_maddubs_epi16(w.magnitude_a, _mm256_sign_epi8(x, w.a)),
                     _mm256_maddubs_epi16(w.magnitude_b, _mm256_sign_epi8(x, w.b))});
  }
  DH_INLINE static Ints zero_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  DH_INLINE static Ints subtract(Ints s, int32_t x) {
    __m256i v = _mm256_set1_epi32(x);
    return {_mm256_sub_epi32(s.a, v), _mm256_sub_epi32(s.b, v)};
  }

  DH_INLINE static Floats zero_floats() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  DH_INLINE static Floats set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  DH_INLINE static Floats to_floats(Ints v) { return {_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
  DH_INLINE static Floats add(Floats x, Floats y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  DH_INLINE static Floats mul(Floats x, Floats y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  DH_INLINE static Floats fma(Floats x, Floats y, Floats z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  DH_INLINE static Floats load_floats(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  DH_INLINE static void store(float* p, Floats v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
  }
  DH_INLINE static Floats load_f32(const uint8_t* p) { return load_floats(reinterpret_cast<const float*>(p)); }
  DH_INLINE static Floats load_f16(const uint8_t* p) { return {_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p + 16))}; }
  DH_INLINE static __m256 bf16(__m128i v) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16)); }
  DH_INLINE static Floats load_bf16(const uint8_t* p) { return {bf16(load128(p)), bf16(load128(p + 16))}; }
  // 2^(e - 128): for e >= 2 the exponent field e - 1, below that a subnormal.
  DH_INLINE static __m256 e8m0_half(__m256i e) {
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i odd = _mm256_and_si256(e, _mm256_set1_epi32(1));
    __m256i subnormal = _mm256_slli_epi32(_mm256_add_epi32(odd, _mm256_set1_epi32(1)), 21);
    return _mm256_castsi256_ps(_mm256_max_epi32(normal, subnormal));
  }
  DH_INLINE static Floats load_e8m0_half(const uint8_t* p) {
    return {e8m0_half(_mm256_cvtepu8_epi32(load64(p))), e8m0_half(_mm256_cvtepu8_epi32(load64(p + 8)))};
  }
  // E4M3's bits at the place of f16's are the value times 2^-8.
  DH_INLINE static __m256 e4m3_half(__m128i v) {
    __m128i wide = _mm_cvtepu8_epi16(v);
    __m128i magnitude = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x7f)), 7);
    __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(magnitude, sign)), _mm256_set1_ps(128.0f));
  }
  DH_INLINE static Floats load_e4m3_half(const uint8_t* p) { return {e4m3_half(load64(p)), e4m3_half(load64(p + 8))}; }
  DH_INLINE static Floats from_u8(const uint8_t* p) {
    return to_floats({_mm256_cvtepu8_epi32(load64(p)), _mm256_cvtepu8_epi32(load64(p + 8))});
  }
  DH_INLINE static Floats from_i8(const uint8_t* p) {
    return to_floats({_mm256_cvtepi8_epi32(load64(p)), _mm256_cvtepi8_epi32(load64(p + 8))});
  }
  DH_INLINE static Floats from_low_nibbles(const uint8_t* p) {
    const __m256i mask = _mm256_set1_epi32(15);
    return to_floats({_mm256_and_si256(_mm256_cvtepu8_epi32(load64(p)), mask),
                      _mm256_and_si256(_mm256_cvtepu8_epi32(load64(p + 8)), mask)});
  }
  DH_INLINE static Floats from_high_nibbles(const uint8_t* p) {
    return to_floats({_mm256_srli_epi32(_mm256_cvtepu8_epi32(load64(p)), 4),
                      _mm256_srli_epi32(_mm256_cvtepu8_epi32(load64(p + 8)), 4)});
  }
};

// The largest |x| of 8 n floats as bits: infinities and NaN come out above every finite value.
DH_INLINE int32_t max_magnitude_bits(const float* x, int n) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  __m256i max = _mm256_setzero_si256();
  for (int i = 0; i < n; i++) max = _mm256_max_epi32(max, _mm256_and_si256(Avx2::load256(x + 8 * i), mask));
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
  return _mm_cvtsi128_si32(m);
}

// 32 inputs to int8, and the sums of both halves.
DH_INLINE void quantise_32(const float* x, float id, int8_t* q, int32_t* sum16) {
  const __m256 scale = _mm256_set1_ps(id);
  __m256i v[4];
  for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), scale));
  __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
  __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
  sum16[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(sums));
  sum16[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(sums, 1));
}

void quantise(const float* x, int n, int group, QuantisedSegment& out) {
  for (int g = 0; g < n / group; g++) {
    const float* from = x + g * group;
    auto [d, id] = kernel::group_scale(max_magnitude_bits(from, group / 8));
    if (id == 0) {
      kernel::empty_group(g, group, d, out);
      continue;
    }
    for (int i = 0; i < group; i += 32) quantise_32(from + i, id, out.q + g * group + i, out.sum16 + (g * group + i) / 16);
    kernel::finish_group(g, group, d, out);
  }
}

constexpr Kernels kKernels{"avx2", kernel::matmul_table<Avx2>(), quantise};

}  // namespace

const Kernels* avx2_kernels() {
  static const bool usable = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return usable ? &kKernels : nullptr;
}

}  // namespace drafthorse

#else
#include "backend/cpu/kernels.h"
namespace drafthorse {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace drafthorse
#endif
