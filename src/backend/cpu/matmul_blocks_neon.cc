// NEON products of simple tiles without biases.

#if defined(__AARCH64EL__) && defined(__ARM_FEATURE_DOTPROD)

#include "backend/cpu/vectors_neon.h"

namespace drafthorse {

MatmulTable blocks_table_neon() { return kernel::quantised_table<Whole, PackedLayout::q4_0, PackedLayout::nvfp4>(); }

}  // namespace drafthorse

#endif
