// AVX-512 products of simple tiles without biases.

#if defined(__AVX512VNNI__)

#include "backend/cpu/vectors_avx512.h"

namespace drafthorse {

MatmulTable blocks_table_avx512() { return kernel::quantised_table<Avx512, PackedLayout::q4_0, PackedLayout::nvfp4>(); }

}  // namespace drafthorse

#endif
