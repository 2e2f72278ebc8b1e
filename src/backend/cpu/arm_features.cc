#include "backend/cpu/arm_features.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

#include <cstddef>
#endif

namespace drafthorse {

bool has_dot_product() {
#if defined(__aarch64__) && defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#elif defined(__aarch64__) && defined(__APPLE__)
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &value, &size, nullptr, 0) == 0 && value == 1;
#else
  return false;
#endif
}

}  // namespace drafthorse
