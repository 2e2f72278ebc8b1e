#pragma once
// ln and exp in double precision as fixed sequences of operations: a mathematics library's last bit differs between
// systems, and a sampled token must not.

#include <bit>
#include <cmath>
#include <cstdint>

namespace drafthorse {

// ln(x) for finite x > 0, as a fixed sequence of double operations (the same bits on every machine; error < 1e-15
// relative to max(1, |ln x|)). x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m - 1) / (m + 1)).
inline double fixed_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return exponent * 0.69314718055994531 + 2 * s * sum;
}

// e^x for x <= 700, as a fixed sequence of double operations (error < 4e-16 relative); 0 below -700.
// x = n ln 2 + r, |r| <= ln 2 / 2; e^r by its Taylor sum to r^13 / 13!.
inline double fixed_exp(double x) {
  const double clamped = x < -700.0 ? -700.0 : x;
  const double shifted = clamped * 1.4426950408889634 + 0x1.8p52;  // adding 1.5 * 2^52 rounds to an integer
  const double n = shifted - 0x1.8p52;
  const double r = (clamped - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;  // ln 2 in two parts
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const auto exponent = std::bit_cast<int64_t>(shifted) - std::bit_cast<int64_t>(0x1.8p52);
  const double power = std::bit_cast<double>((exponent + 1023) << 52);
  return x < -700.0 ? 0.0 : sum * power;
}

}  // namespace drafthorse
