// The AVX2 kernels: quantising, float formats, and the table. The quantised products are in matmul_*_avx2.cc, several
// files only so that they compile side by side.

#include "backend/cpu/kernels.h"

#if defined(__AVX2__)

#include "backend/cpu/vectors_avx2.h"
#include "backend/cpu/x86_features.h"

namespace drafthorse {

MatmulTable simple_table_avx2();
MatmulTable blocks_table_avx2();
MatmulTable super_table_avx2();

namespace {

// The largest |x| of 8 n floats as bits: infinities and NaN come out above every finite value.
DH_INLINE int32_t max_magnitude_bits(const float* x, int n) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  __m256i max = _mm256_setzero_si256();
  for (int i = 0; i < n; i++) max = _mm256_max_epi32(max, _mm256_and_si256(Whole::load256(x + 8 * i), mask));
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
    for (int i = 0; i < group; i += 32)
      quantise_32(from + i, id, out.q + g * group + i, out.sum16 + (g * group + i) / 16);
    kernel::finish_group(g, group, d, out);
  }
}

const Kernels& kernels() {
  static const Kernels kernels{
      "avx2",
      kernel::merged({kernel::float_table<Whole>(), simple_table_avx2(), blocks_table_avx2(), super_table_avx2()}),
      quantise};
  return kernels;
}

}  // namespace

const Kernels* avx2_kernels() { return has_avx2() ? &kernels() : nullptr; }

}  // namespace drafthorse

#else
namespace drafthorse {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace drafthorse
#endif
