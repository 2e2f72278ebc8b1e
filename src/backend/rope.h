#pragma once
// Angles of rotary embeddings, computed once for all backends.

#include "network/network.h"

namespace drafthorse {

// cos[i] = scale * cos(position * inv_freq[i]), sin alike, i < dims / 2. The angle is a double, so it is accurate at
// any position; a backend on another device gets these tables instead of computing its own.
void rope_row(const Rope& rope, int position, float* cos, float* sin);

bool same_rope(const Rope& a, const Rope& b);

}  // namespace drafthorse
