// RowKernels for AVX-512.
#include "backend/cpu/row_kernels_tables.h"

#if defined(__AVX512F__)
#include "backend/cpu/attention_impl.h"

namespace drafthorse::cpu {
namespace {

struct Avx512 {
  static constexpr int width = 16;
  // The masked forms: the plain ones start from an undefined vector, of which the compiler warns.
  [[gnu::always_inline]] static inline Lanes<16> load_half(const uint16_t* p) {
    return (Lanes<16>)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  [[gnu::always_inline]] static inline void store_half(uint16_t* p, Lanes<16> v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT));
  }
};

constexpr RowKernels kTable = table<Avx512>("avx512");

}  // namespace

const RowKernels* const kAvx512Rows = &kTable;

}  // namespace drafthorse::cpu
#else
namespace drafthorse::cpu {
const RowKernels* const kAvx512Rows = nullptr;
}
#endif
