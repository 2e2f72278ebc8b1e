// NEON products of super tiles.

#if defined(__AARCH64EL__) && defined(__ARM_FEATURE_DOTPROD)

#include "backend/cpu/vectors_neon.h"

namespace drafthorse {

MatmulTable super_table_neon() { return kernel::quantised_table<Whole, PackedLayout::q2_k, PackedLayout::iq4_xs>(); }

}  // namespace drafthorse

#endif
