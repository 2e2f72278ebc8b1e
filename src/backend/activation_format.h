#pragma once
// How activations are cut and quantised for matrix products (scheme.h has the definitions).

#include <cstdint>

namespace drafthorse {

inline constexpr int kSegment = 512;      // inputs summed in one running sum
inline constexpr int kBlockOutputs = 16;  // outputs packed side by side

enum class ActivationKind : uint8_t { f32, int8_group32, int8_group64 };

}  // namespace drafthorse
