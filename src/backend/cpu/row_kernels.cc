#include "backend/cpu/row_kernels.h"

#include "backend/cpu/arm_features.h"
#include "backend/cpu/row_kernels_tables.h"
#include "backend/cpu/x86_features.h"

namespace drafthorse::cpu {

const RowKernels* row_kernels(std::string_view isa) {
  if (isa == "portable") return kPortableRows;
  if (isa == "avx2") return has_avx2() ? kAvx2Rows : nullptr;
  if (isa == "avx512") return has_avx512() ? kAvx512Rows : nullptr;
  if (isa == "neon") return has_dot_product() ? kNeonRows : nullptr;
  return nullptr;
}

}  // namespace drafthorse::cpu
