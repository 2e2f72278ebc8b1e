#include "core/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "core/half.h"

namespace drafthorse {
namespace {

// Floats of every magnitude in [-limit, limit], zeros and infinities among them.
std::vector<float> samples(float limit, size_t count) {
  std::mt19937 random(7);
  std::vector<float> x = {0.0f, -0.0f, limit, -limit, 1e-40f, -1e-40f, 0.625f, -0.625f};
  while (x.size() < count / 2) {
    const float f = std::bit_cast<float>(uint32_t(random()));
    if (std::abs(f) <= limit) x.push_back(f);
  }
  std::uniform_real_distribution<float> uniform(-limit, limit);
  while (x.size() % 16 || x.size() < count) x.push_back(uniform(random));
  return x;
}

double ulps(float got, double expected) {
  const float rounded = float(expected);
  if (got == rounded) return 0;
  const float next = std::nextafter(std::abs(rounded), std::numeric_limits<float>::infinity());
  const double ulp = double(next) - std::abs(double(rounded));
  return std::abs(double(got) - expected) / ulp;
}

template <int N, class F>
void expect_same_bits(const std::vector<float>& x, F f) {
  size_t different = 0;
  for (size_t i = 0; i + N <= x.size(); i += N) {
    Lanes<N> y = f(load_lanes<Lanes<N>>(&x[i]));
    float lanes[N];
    store_lanes(lanes, y);
    for (int j = 0; j < N; ++j) {
      const float scalar = f(x[i + j]);
      if (std::isnan(scalar) && std::isnan(lanes[j])) continue;
      different += std::bit_cast<uint32_t>(lanes[j]) != std::bit_cast<uint32_t>(scalar);
    }
  }
  EXPECT_EQ(different, 0u) << N << " lanes";
}

template <class F>
void check(const char* what, float limit, double bound, F f, const std::function<double(double)>& exact) {
  SCOPED_TRACE(what);
  const std::vector<float> x = samples(limit, 2'000'000);
  double worst = 0, at = 0;
  for (float value : x) {
    const double error = ulps(f(value), exact(value));
    if (error > worst) worst = error, at = value;
  }
  EXPECT_LE(worst, bound) << "at " << at;
  std::printf("%-10s worst %.2f ulp at %g\n", what, worst, at);
  expect_same_bits<4>(x, f);
  expect_same_bits<8>(x, f);
  expect_same_bits<16>(x, f);
}

TEST(Math, ExpIsAccurateAndTheSameAtEveryWidth) {
  check(
      "exp", 87.0f, 1.5, [](auto x) { return exp_fixed(x); }, [](double x) { return std::exp(x); });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_fixed(-infinity), 0.0f);
  EXPECT_EQ(exp_fixed(infinity), infinity);
  EXPECT_EQ(exp_fixed(0.0f), 1.0f);
  EXPECT_EQ(exp_fixed(200.0f), infinity);
  EXPECT_TRUE(std::isnan(exp_fixed(std::nanf(""))));
  for (float x : {-88.0f, -95.0f, -103.0f}) EXPECT_NEAR(exp_fixed(x), std::exp(double(x)), 2e-45) << x;
}

TEST(Math, SigmoidSiluTanhGeluSoftplus) {
  check(
      "sigmoid", 80.0f, 3, [](auto x) { return sigmoid_fixed(x); }, [](double x) { return 1 / (1 + std::exp(-x)); });
  check(
      "silu", 80.0f, 3, [](auto x) { return silu_fixed(x); }, [](double x) { return x / (1 + std::exp(-x)); });
  check(
      "tanh", 1e30f, 3, [](auto x) { return tanh_fixed(x); }, [](double x) { return std::tanh(x); });
  check(
      "tanh", 4.0f, 3, [](auto x) { return tanh_fixed(x); }, [](double x) { return std::tanh(x); });
  check(
      "softplus", 80.0f, 3, [](auto x) { return softplus_fixed(x); },
      [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); });
}

TEST(Math, GeluTanhIsWithinItsOwnRounding) {
  // The exponent 2u is rounded once, so the error grows with |u|: relative to |x| it stays within a few ulp.
  const std::vector<float> x = samples(10.0f, 2'000'000);
  double worst = 0;
  for (float value : x) {
    const double v = value, u = 0.7978845608028654 * (v + 0.044715 * v * v * v);
    const double exact = v / (1 + std::exp(-2 * u));
    worst = std::max(worst, std::abs(gelu_tanh_fixed(value) - exact) / std::max(1e-30, std::abs(v)));
  }
  EXPECT_LE(worst, 4e-7);
  auto f = [](auto v) { return gelu_tanh_fixed(v); };
  expect_same_bits<4>(x, f);
  expect_same_bits<8>(x, f);
  expect_same_bits<16>(x, f);
}

TEST(Math, SinAndCosOfLargeAngles) {
  for (float limit : {4.0f, 1000.0f, 1048576.0f}) {
    const std::vector<float> x = samples(limit, 1'000'000);
    double worst = 0;
    for (float value : x) {
      const auto y = sin_cos_fixed(value);
      worst = std::max({worst, std::abs(y.sin - std::sin(double(value))), std::abs(y.cos - std::cos(double(value)))});
    }
    EXPECT_LE(worst, 1e-7) << "|x| <= " << limit;
    auto sin = [](auto v) { return sin_cos_fixed(v).sin; };
    auto cos = [](auto v) { return sin_cos_fixed(v).cos; };
    expect_same_bits<8>(x, sin);
    expect_same_bits<8>(x, cos);
    expect_same_bits<16>(x, sin);
  }
}

TEST(Math, Sum32HasTheDocumentedOrder) {
  std::vector<float> x(75);
  std::mt19937 random(3);
  for (float& v : x) v = std::ldexp(float(random() % 1000), int(random() % 30) - 15);
  float p[32] = {};
  for (size_t i = 0; i < x.size(); ++i) p[i % 32] += x[i];
  for (int half : {16, 8, 4, 2, 1}) {
    for (int i = 0; i < half; ++i) p[i] += p[i + half];
  }
  EXPECT_EQ(sum32(x), p[0]);
  std::vector<float> ones(1000, 2.0f);
  EXPECT_EQ(sum32(ones), 2000.0f);
  EXPECT_EQ(sum_squares32(ones), 4000.0f);
}

TEST(Half, EveryHalfSurvivesAndRoundingIsToNearestEven) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float f = half_to_float(uint16_t(h));
    const int exponent = int(h >> 10 & 31), fraction = int(h & 0x3ff);
    if (exponent == 31 && fraction) {
      EXPECT_TRUE(std::isnan(f));
      continue;
    }
    const double value = exponent == 31  ? INFINITY
                         : exponent == 0 ? std::ldexp(fraction, -24)
                                         : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(f, h & 0x8000 ? -value : value) << h;
    ASSERT_EQ(float_to_half(f), h);
    if (exponent == 31 || (h & 0x7fff) == 0x7bff) continue;
    // Half-way to the next larger magnitude goes to the even one; a hair more or less goes to the nearer one.
    const float next = half_to_float(uint16_t(h + 1)), middle = (f + next) / 2;
    ASSERT_EQ(float_to_half(middle), h % 2 == 0 ? h : h + 1);
    ASSERT_EQ(float_to_half(std::nextafter(middle, f)), h);
    ASSERT_EQ(float_to_half(std::nextafter(middle, next)), h + 1);
  }
  EXPECT_EQ(float_to_half(65519.9f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_half(1e-30f), 0);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::nanf("")))));
}

}  // namespace
}  // namespace drafthorse
