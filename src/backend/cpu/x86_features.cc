#include "backend/cpu/x86_features.h"

#if defined(__x86_64__)
#include <cpuid.h>

namespace drafthorse {
namespace {

// __builtin_cpu_supports("f16c") is unknown to clang before 15. The system's part (saved AVX registers) is checked by the
// builtin for "avx2".
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

}  // namespace

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

}  // namespace drafthorse
#else
namespace drafthorse {
bool has_avx2() { return false; }
bool has_avx512() { return false; }
}  // namespace drafthorse
#endif
