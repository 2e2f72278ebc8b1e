// RowKernels for AVX2, FMA and F16C.
#include "backend/cpu/row_kernels_tables.h"

#if defined(__AVX2__)
#include "backend/cpu/attention_impl.h"

namespace drafthorse::cpu {
namespace {

struct Avx2 {
  static constexpr int width = 8;
  [[gnu::always_inline]] static inline Lanes<8> load_half(const uint16_t* p) {
    return (Lanes<8>)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  [[gnu::always_inline]] static inline void store_half(uint16_t* p, Lanes<8> v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
  }
};

constexpr RowKernels kTable = table<Avx2>("avx2");

}  // namespace

const RowKernels* const kAvx2Rows = &kTable;

}  // namespace drafthorse::cpu
#else
namespace drafthorse::cpu {
const RowKernels* const kAvx2Rows = nullptr;
}
#endif
