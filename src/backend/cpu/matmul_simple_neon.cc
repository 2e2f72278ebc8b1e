// NEON products of biased simple tiles.

#if defined(__AARCH64EL__) && defined(__ARM_FEATURE_DOTPROD)

#include "backend/cpu/vectors_neon.h"

namespace drafthorse {

MatmulTable simple_table_neon() { return kernel::quantised_table<Whole, PackedLayout::b2_32, PackedLayout::b8_64>(); }

}  // namespace drafthorse

#endif
