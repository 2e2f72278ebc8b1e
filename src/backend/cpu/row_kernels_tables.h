#pragma once
// The tables that the files of the instruction sets define; nullptr where the compiler does not target the set.

#include "backend/cpu/row_kernels.h"

namespace drafthorse::cpu {

extern const RowKernels* const kPortableRows;
extern const RowKernels* const kAvx2Rows;
extern const RowKernels* const kAvx512Rows;
extern const RowKernels* const kNeonRows;

}  // namespace drafthorse::cpu
