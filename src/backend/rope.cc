#include "backend/rope.h"

#include <cmath>

namespace drafthorse {

void rope_row(const Rope& rope, int position, float* cos, float* sin) {
  for (int i = 0; i < rope.dims / 2; ++i) {
    const double angle = double(position) * double(rope.inv_freq[i]);
    cos[i] = float(std::cos(angle) * double(rope.scale));
    sin[i] = float(std::sin(angle) * double(rope.scale));
  }
}

bool same_rope(const Rope& a, const Rope& b) {
  return a.dims == b.dims && a.scale == b.scale && a.interleaved == b.interleaved && a.inv_freq == b.inv_freq;
}

}  // namespace drafthorse
