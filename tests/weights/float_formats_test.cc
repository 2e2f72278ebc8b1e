// The small floating-point formats: whole tables, and rounding against exact arithmetic.

#include "weights/float_formats.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace drafthorse {
namespace {

// The value of a sign-exponent-mantissa code by its definition, in double.
double code_value(uint32_t bits, int exponent_bits, int mantissa_bits, int bias) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1),
                 exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const double sign = bits >> (mantissa_bits + exponent_bits) & 1u ? -1 : 1;
  const double fraction = static_cast<double>(mantissa) / (1u << mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

TEST(FloatFormats, F16TableAndRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_float(static_cast<uint16_t>(bits));
    if ((bits & 0x7C00) == 0x7C00) {
      EXPECT_EQ(std::isnan(value), (bits & 0x3FF) != 0);
      EXPECT_EQ(std::isinf(value), (bits & 0x3FF) == 0);
      EXPECT_EQ(std::signbit(value), bits >= 0x8000);
    } else {
      ASSERT_EQ(static_cast<double>(value), code_value(bits, 5, 10, 15)) << bits;
      ASSERT_EQ(float_to_f16(value), bits);
    }
  }
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(float_to_f16(std::numeric_limits<float>::infinity()), 0x7C00);
}

// Checks that `code` is the nearest code to value, and the even one of two: no neighbour is nearer.
template <class Decode>
void expect_nearest(float value, uint16_t code, uint16_t largest_finite, Decode decode) {
  const uint16_t magnitude = code & 0x7FFF;
  const double target = std::fabs(static_cast<double>(value)), distance = std::fabs(decode(magnitude) - target);
  for (const int step : {-1, 1}) {
    const int neighbour = magnitude + step;
    if (neighbour < 0 || neighbour > largest_finite) continue;
    const double other = std::fabs(decode(static_cast<uint16_t>(neighbour)) - target);
    RC_ASSERT(distance < other || (distance == other && magnitude % 2 == 0));
  }
}

float any_float(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(FloatFormats, F16RoundsToNearestEven) {
  EXPECT_TRUE(rc::check([](uint32_t mantissa, bool negative) {
    const int exponent = *rc::gen::inRange(127 - 27, 127 + 17);
    const float value =
        any_float(uint32_t{negative} << 31 | static_cast<uint32_t>(exponent) << 23 | (mantissa & 0x7FFFFF));
    const uint16_t code = float_to_f16(value);
    RC_ASSERT((code >> 15 != 0) == negative);
    if (std::fabs(value) >= 65520.0f) {
      RC_ASSERT((code & 0x7FFF) == 0x7C00);
    } else {
      expect_nearest(value, code, 0x7BFF, [](uint16_t c) { return static_cast<double>(f16_to_float(c)); });
    }
  }));
  EXPECT_EQ(float_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_f16(0x1p-25f), 0);  // half of the smallest subnormal: to even
  EXPECT_EQ(float_to_f16(0x1.8p-25f), 1);
}

TEST(FloatFormats, Bf16RoundsToNearestEven) {
  EXPECT_TRUE(rc::check([](uint32_t bits) {
    const float value = any_float(bits);
    const uint16_t code = float_to_bf16(value);
    if (std::isnan(value)) {
      RC_ASSERT(std::isnan(bf16_to_float(code)));
    } else if (!std::isinf(bf16_to_float(code))) {
      expect_nearest(value, code, 0x7F7F, [](uint16_t c) { return static_cast<double>(bf16_to_float(c)); });
    }
  }));
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    ASSERT_EQ(float_to_bf16(bf16_to_float(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(FloatFormats, E4M3Table) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float value = e4m3_to_float(static_cast<uint8_t>(bits));
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(static_cast<double>(value), code_value(bits, 4, 3, 7));
      EXPECT_EQ(std::signbit(value), bits >= 0x80);
    }
  }
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0f);
}

TEST(FloatFormats, E8M0Table) {
  for (int bits = 0; bits < 255; ++bits) {
    EXPECT_EQ(e8m0_to_float(static_cast<uint8_t>(bits)), std::ldexp(1.0f, bits - 127)) << bits;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(FloatFormats, E2M1Table) {
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t code = 0; code < 8; ++code) {
    EXPECT_EQ(e2m1_to_float(code), values[code]);
    EXPECT_EQ(e2m1_to_float(code | 8), -values[code]);
    EXPECT_TRUE(std::signbit(e2m1_to_float(code | 8)));
  }
}

}  // namespace
}  // namespace drafthorse
