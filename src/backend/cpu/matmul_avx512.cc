// The AVX-512 VNNI kernels: quantising, float formats, and the table. The quantised products are in matmul_*_avx512.cc.

#include "backend/cpu/kernels.h"

#if defined(__AVX512VNNI__)

#include "backend/cpu/vectors_avx512.h"
#include "backend/cpu/x86_features.h"

namespace drafthorse {

MatmulTable simple_table_avx512();
MatmulTable blocks_table_avx512();
MatmulTable super_table_avx512();

namespace {

// The largest |x| of n floats as bits: infinities and NaN come out above every finite value.
DH_INLINE int32_t max_magnitude_bits(const float* x, int n) {
  const __m512i mask = _mm512_set1_epi32(0x7fffffff);
  __m512i max = _mm512_setzero_si512();
  for (int i = 0; i < n; i += 16) max = _mm512_max_epi32(max, _mm512_and_si512(_mm512_loadu_si512(x + i), mask));
  return _mm512_reduce_max_epi32(max);
}

void quantise(const float* x, int n, int group, QuantisedSegment& out) {
  for (int g = 0; g < n / group; g++) {
    const float* from = x + g * group;
    auto [d, id] = kernel::group_scale(max_magnitude_bits(from, group));
    if (id == 0) {
      kernel::empty_group(g, group, d, out);
      continue;
    }
    for (int k = 0; k < group; k += 16) {
      __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from + k), _mm512_set1_ps(id)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out.q + g * group + k), _mm512_cvtepi32_epi8(q));
      out.sum16[(g * group + k) / 16] = _mm512_reduce_add_epi32(q);
    }
    kernel::finish_group(g, group, d, out);
  }
}

const Kernels& kernels() {
  static const Kernels kernels{"avx512",
                               kernel::merged({kernel::float_table<Avx512>(), simple_table_avx512(),
                                               blocks_table_avx512(), super_table_avx512()}),
                               quantise};
  return kernels;
}

}  // namespace

const Kernels* avx512_kernels() { return has_avx512() ? &kernels() : nullptr; }

}  // namespace drafthorse

#else
namespace drafthorse {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace drafthorse
#endif
