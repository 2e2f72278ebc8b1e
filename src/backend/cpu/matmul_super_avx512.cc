// AVX-512 products of super tiles.

#if defined(__AVX512VNNI__)

#include "backend/cpu/vectors_avx512.h"

namespace drafthorse {

MatmulTable super_table_avx512() { return kernel::quantised_table<Avx512, PackedLayout::q2_k, PackedLayout::iq4_xs>(); }

}  // namespace drafthorse

#endif
