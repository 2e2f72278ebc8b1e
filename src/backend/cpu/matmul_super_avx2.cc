// AVX2 products of super tiles.

#if defined(__AVX2__)

#include "backend/cpu/vectors_avx2.h"

namespace drafthorse {

MatmulTable super_table_avx2() { return kernel::quantised_table<Whole, PackedLayout::q2_k, PackedLayout::iq4_xs>(); }

}  // namespace drafthorse

#endif
