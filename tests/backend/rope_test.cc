#include "backend/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace drafthorse {
namespace {

TEST(Rope, TablesAreExactToAnFp32RoundingAtAnyPosition) {
  Rope rope;
  rope.dims = 128;
  rope.scale = 1.25f;
  for (int i = 0; i < 64; ++i) rope.inv_freq.push_back(std::pow(1e6f, -float(i) / 64));
  float cos[64], sin[64];
  for (int position : {0, 1, 77, 4095, 131071, 1000003}) {
    rope_row(rope, position, cos, sin);
    for (int i = 0; i < 64; ++i) {
      const long double angle = static_cast<long double>(position) * rope.inv_freq[i];
      EXPECT_NEAR(cos[i], float(1.25L * std::cos(angle)), 8e-8) << position << " " << i;
      EXPECT_NEAR(sin[i], float(1.25L * std::sin(angle)), 8e-8) << position << " " << i;
    }
  }
  Rope other = rope;
  EXPECT_TRUE(same_rope(rope, other));
  other.inv_freq[3] *= 2;
  EXPECT_FALSE(same_rope(rope, other));
}

}  // namespace
}  // namespace drafthorse
