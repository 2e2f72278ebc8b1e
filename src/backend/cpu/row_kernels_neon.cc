// RowKernels for NEON.
#include "backend/cpu/row_kernels_tables.h"

#if defined(__AARCH64EL__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

#include "backend/cpu/attention_impl.h"

namespace drafthorse::cpu {
namespace {

struct Neon {
  static constexpr int width = 4;
  [[gnu::always_inline]] static inline Lanes<4> load_half(const uint16_t* p) {
    return (Lanes<4>)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
  }
  [[gnu::always_inline]] static inline void store_half(uint16_t* p, Lanes<4> v) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
  }
};

constexpr RowKernels kTable = table<Neon>("neon");

}  // namespace

const RowKernels* const kNeonRows = &kTable;

}  // namespace drafthorse::cpu
#else
namespace drafthorse::cpu {
const RowKernels* const kNeonRows = nullptr;
}
#endif
