#include "backend/cpu/row_kernels.h"

#include "backend/cpu/arm_features.h"
#include "backend/cpu/row_kernels_tables.h"

namespace drafthorse::cpu {
namespace {

bool runs_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

bool runs_avx512() {
#if defined(__x86_64__)
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

}  // namespace

const RowKernels* row_kernels(std::string_view isa) {
  if (isa == "portable") return kPortableRows;
  if (isa == "avx2") return runs_avx2() ? kAvx2Rows : nullptr;
  if (isa == "avx512") return runs_avx512() ? kAvx512Rows : nullptr;
  if (isa == "neon") return has_dot_product() ? kNeonRows : nullptr;
  return nullptr;
}

}  // namespace drafthorse::cpu
