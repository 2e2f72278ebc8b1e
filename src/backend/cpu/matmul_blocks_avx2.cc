// AVX2 products of simple tiles without biases.

#if defined(__AVX2__)

#include "backend/cpu/vectors_avx2.h"

namespace drafthorse {

MatmulTable blocks_table_avx2() { return kernel::quantised_table<Whole, PackedLayout::q4_0, PackedLayout::nvfp4>(); }

}  // namespace drafthorse

#endif
