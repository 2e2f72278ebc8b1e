#pragma once
// What an Arm processor can do, asked of the system at run time.

namespace drafthorse {

// Whether this processor has the dot product instructions (Armv8.2 FEAT_DotProd), which every NEON kernel is built for.
// False on other architectures.
bool has_dot_product();

}  // namespace drafthorse
