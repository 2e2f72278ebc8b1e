// The NEON kernels: quantising, float formats, and the table. The quantised products are in matmul_*_neon.cc, several
// files only so that they compile side by side.

#include "backend/cpu/kernels.h"

#if defined(__AARCH64EL__) && defined(__ARM_FEATURE_DOTPROD)

#include "backend/cpu/arm_features.h"
#include "backend/cpu/vectors_neon.h"

namespace drafthorse {

MatmulTable simple_table_neon();
MatmulTable blocks_table_neon();
MatmulTable super_table_neon();

namespace {

// The largest |x| of n floats as bits: infinities and NaN come out above every finite value.
DH_INLINE int32_t max_magnitude_bits(const float* x, int n) {
  const int32x4_t mask = vdupq_n_s32(0x7fffffff);
  int32x4_t max = vdupq_n_s32(0);
  for (int i = 0; i < n; i += 4) max = vmaxq_s32(max, vandq_s32(vreinterpretq_s32_f32(vld1q_f32(x + i)), mask));
  return vmaxvq_s32(max);
}

// 16 inputs to int8, to nearest even; returns their sum.
DH_INLINE int32_t quantise_16(const float* x, float id, int8_t* q) {
  int16x4_t v[4];
  for (int i = 0; i < 4; i++) v[i] = vmovn_s32(vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + 4 * i), vdupq_n_f32(id))));
  const int8x16_t bytes = vcombine_s8(vmovn_s16(vcombine_s16(v[0], v[1])), vmovn_s16(vcombine_s16(v[2], v[3])));
  vst1q_s8(q, bytes);
  return vaddlvq_s8(bytes);
}

void quantise(const float* x, int n, int group, QuantisedSegment& out) {
  for (int g = 0; g < n / group; g++) {
    const float* from = x + g * group;
    auto [d, id] = kernel::group_scale(max_magnitude_bits(from, group));
    if (id == 0) {
      kernel::empty_group(g, group, d, out);
      continue;
    }
    for (int i = g * group; i < (g + 1) * group; i += 16) out.sum16[i / 16] = quantise_16(x + i, id, out.q + i);
    kernel::finish_group(g, group, d, out);
  }
}

const Kernels& kernels() {
  static const Kernels kernels{
      "neon",
      kernel::merged({kernel::float_table<Whole>(), simple_table_neon(), blocks_table_neon(), super_table_neon()}),
      quantise};
  return kernels;
}

}  // namespace

const Kernels* neon_kernels() { return has_dot_product() ? &kernels() : nullptr; }

}  // namespace drafthorse

#else
namespace drafthorse {
const Kernels* neon_kernels() { return nullptr; }
}  // namespace drafthorse
#endif
