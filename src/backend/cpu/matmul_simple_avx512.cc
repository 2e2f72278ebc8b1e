// AVX-512 products of biased simple tiles.

#if defined(__AVX512VNNI__)

#include "backend/cpu/vectors_avx512.h"

namespace drafthorse {

MatmulTable simple_table_avx512() {
  return kernel::quantised_table<Avx512, PackedLayout::b2_32, PackedLayout::b8_64>();
}

}  // namespace drafthorse

#endif
