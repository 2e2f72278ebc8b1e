// Rotary tables against the formulas of rope.h, written here in period form.

#include "network/rope.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace drafthorse {
namespace {

double period(double base, int dims, size_t i) { return std::pow(base, 2.0 * static_cast<double>(i) / dims); }

TEST(Rope, PlainAndLinear) {
  const Rope plain = make_rope(64, 500000, {}, true);
  ASSERT_EQ(plain.inv_freq.size(), 32u);
  EXPECT_TRUE(plain.interleaved);
  EXPECT_EQ(plain.scale, 1.0f);
  EXPECT_EQ(plain.inv_freq[0], 1.0f);
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::linear;
  scaling.factor = 4;
  const Rope linear = make_rope(64, 500000, scaling, false);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_FLOAT_EQ(plain.inv_freq[i], static_cast<float>(1 / period(500000, 64, i)));
    EXPECT_FLOAT_EQ(linear.inv_freq[i], static_cast<float>(1 / (4 * period(500000, 64, i))));
  }
  EXPECT_EQ(make_rope(0, 10000, {}, false).inv_freq.size(), 0u);
}

TEST(Rope, Llama3) {
  RopeScaling s;
  s.kind = RopeScaling::Kind::llama3;
  s.factor = 8;
  s.original_context = 8192;
  const Rope rope = make_rope(128, 500000, s, false);
  int kept = 0, stretched = 0, blended = 0;
  for (size_t i = 0; i < 64; ++i) {
    const double p = period(500000, 128, i), wavelength = 2 * std::numbers::pi * p;
    double expected = p;
    if (wavelength > 8192) {
      expected = 8 * p;
      ++stretched;
    } else if (wavelength >= 8192.0 / 4) {
      const double smooth = (8192 / wavelength - 1) / 3;
      expected = p / ((1 - smooth) / 8 + smooth);
      ++blended;
    } else {
      ++kept;
    }
    EXPECT_NEAR(rope.inv_freq[i] * expected, 1, 1e-6) << i;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(blended, 0);
}

TEST(Rope, Yarn) {
  RopeScaling s;
  s.kind = RopeScaling::Kind::yarn;
  s.factor = 4;
  s.original_context = 32768;
  const int dims = 128;
  const double base = 1e6;
  const Rope rope = make_rope(dims, base, s, false);
  const auto dimension = [&](double r) {
    return dims * std::log(32768 / (2 * std::numbers::pi * r)) / (2 * std::log(base));
  };
  const double low = std::floor(dimension(32)), high = std::ceil(dimension(1));
  ASSERT_GT(low, 0);
  ASSERT_LT(high, 63);
  for (size_t i = 0; i < 64; ++i) {
    const double p = period(base, dims, i);
    const double m = 1 - std::min(std::max((static_cast<double>(i) - low) / (high - low), 0.0), 1.0);
    const double expected = 4 * p * p / (4 * p * m + p * (1 - m));
    EXPECT_NEAR(rope.inv_freq[i] * expected, 1, 1e-6) << i;
  }
  EXPECT_FLOAT_EQ(rope.scale, static_cast<float>(0.1 * std::log(4) + 1));
  s.mscale_all_dim = 1;
  EXPECT_FLOAT_EQ(make_rope(dims, base, s, false).scale, 1.0f);
  s.mscale = 0.707;
  s.mscale_all_dim = 0.5;
  EXPECT_FLOAT_EQ(make_rope(dims, base, s, false).scale,
                  static_cast<float>((0.0707 * std::log(4) + 1) / (0.05 * std::log(4) + 1)));
  s.attention_factor = 0.5;
  EXPECT_EQ(make_rope(dims, base, s, false).scale, 0.5f);
  s.factor = 1;
  s.attention_factor.reset();
  EXPECT_EQ(make_rope(dims, base, s, false).scale, 1.0f);
}

}  // namespace
}  // namespace drafthorse
