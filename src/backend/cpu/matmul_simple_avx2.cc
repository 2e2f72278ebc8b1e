// AVX2 products of biased simple tiles.

#if defined(__AVX2__)

#include "backend/cpu/vectors_avx2.h"

namespace drafthorse {

MatmulTable simple_table_avx2() { return kernel::quantised_table<Whole, PackedLayout::b2_32, PackedLayout::b8_64>(); }

}  // namespace drafthorse

#endif
