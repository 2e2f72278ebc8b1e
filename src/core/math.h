#pragma once
// The functions that every backend uses, as fixed sequences of fp32 operations: no call into a mathematics library,
// whose last bit differs between systems. V is float or a vector of Lanes; each lane has the bits of the scalar.
// Coefficients are minimax fits on the stated intervals. Accuracy against the exact value is given in units in the
// last place (ulp) and tested in tests/core/math_test.cc.

#include <span>

#include "core/lanes.h"

namespace drafthorse {

// e^x, 1.5 ulp over the whole range, subnormal results included; e^-inf = 0, e^inf = inf.
// x = n ln 2 + r, |r| <= ln 2 / 2; e^r = 1 + r + r^2 P(r); two factors make 2^n for n in [-151, 129].
template <class V>
DRAFTHORSE_LANES_INLINE V exp_fixed(V x) {
  const V low = broadcast<V>(-104.0f), high = broadcast<V>(89.0f);
  x = select_less(x, low, low, x);
  x = select_less(high, x, high, x);
  const V magic = broadcast<V>(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const V shifted = fma(x, broadcast<V>(1.442695022f), magic);
  const V n = shifted - magic;
  V r = fma(n, broadcast<V>(-6.9314718246e-01f), x);
  r = fma(n, broadcast<V>(1.9046542121e-09f), r);
  V p = broadcast<V>(1.381314476e-03f);
  p = fma(p, r, broadcast<V>(8.369418792e-03f));
  p = fma(p, r, broadcast<V>(4.166845605e-02f));
  p = fma(p, r, broadcast<V>(1.666651517e-01f));
  p = fma(p, r, broadcast<V>(4.999999404e-01f));
  p = fma(p, r * r, r) + broadcast<V>(1.0f);
  const IntLanes<V> exponent = bits_of(shifted) - bits_of(magic);
  const IntLanes<V> half = exponent >> 1;
  const V first = from_bits<V>((half + 127) << 23);
  const V second = from_bits<V>((exponent - half + 127) << 23);
  return (p * first) * second;
}

// 1 / (1 + e^-x), 3 ulp.
template <class V>
DRAFTHORSE_LANES_INLINE V sigmoid_fixed(V x) {
  const V one = broadcast<V>(1.0f);
  return one / (one + exp_fixed(-x));
}

// x * sigmoid(x), 3 ulp.
template <class V>
DRAFTHORSE_LANES_INLINE V silu_fixed(V x) {
  return x / (broadcast<V>(1.0f) + exp_fixed(-x));
}

// tanh x, 3 ulp: x + x^3 P(x^2) below 0.625, else 1 - 2 / (e^2|x| + 1) with the sign of x.
template <class V>
DRAFTHORSE_LANES_INLINE V tanh_fixed(V x) {
  const IntLanes<V> sign = bits_of(x) & INT32_MIN;
  const V a = from_bits<V>(bits_of(x) & INT32_MAX);
  const V one = broadcast<V>(1.0f);
  const V large = one - broadcast<V>(2.0f) / (exp_fixed(a + a) + one);
  const V t = a * a;
  V p = broadcast<V>(-5.660794675e-03f);
  p = fma(p, t, broadcast<V>(2.060201392e-02f));
  p = fma(p, t, broadcast<V>(-5.372923240e-02f));
  p = fma(p, t, broadcast<V>(1.333132833e-01f));
  p = fma(p, t, broadcast<V>(-3.333327770e-01f));
  const V small = fma(p * t, a, a);
  const V y = select_less(a, broadcast<V>(0.625f), small, large);
  return from_bits<V>(bits_of(y) | sign);
}

// x / 2 * (1 + tanh u) = x * sigmoid(2u), u = sqrt(2 / pi) * (x + 0.044715 x^3).
template <class V>
DRAFTHORSE_LANES_INLINE V gelu_tanh_fixed(V x) {
  const V cubed = x * x * x;
  const V u = broadcast<V>(0.79788458347f) * fma(broadcast<V>(0.044715f), cubed, x);
  return x / (broadcast<V>(1.0f) + exp_fixed(-(u + u)));
}

// ln(1 + e^x) = max(x, 0) + log1p(e^-|x|), 3 ulp; log1p(t) = 2 atanh(t / (2 + t)), t in [0, 1].
template <class V>
DRAFTHORSE_LANES_INLINE V softplus_fixed(V x) {
  const V zero = broadcast<V>(0.0f);
  const V t = exp_fixed(from_bits<V>(bits_of(x) | INT32_MIN));
  const V s = t / (broadcast<V>(2.0f) + t);
  const V q = s * s;
  V p = broadcast<V>(1.215413883e-01f);
  p = fma(p, q, broadcast<V>(1.071293205e-01f));
  p = fma(p, q, broadcast<V>(1.430851668e-01f));
  p = fma(p, q, broadcast<V>(1.999943703e-01f));
  p = fma(p, q, broadcast<V>(3.333333731e-01f));
  const V half = fma(p * q, s, s);
  return select_less(x, zero, zero, x) + (half + half);
}

// sin x and cos x for |x| <= 2^20, within 1e-7 of the exact value: x = n pi/2 + r with pi/2 in three parts (n times
// the first is subtracted without error), then a polynomial of r or its cofunction by the quadrant n mod 4.
template <class V>
struct SinCos {
  V sin, cos;
};
template <class V>
DRAFTHORSE_LANES_INLINE SinCos<V> sin_cos_fixed(V x) {
  const V magic = broadcast<V>(12582912.0f);
  const V shifted = fma(x, broadcast<V>(6.3661974669e-01f), magic);
  const V n = shifted - magic;
  V r = fma(n, broadcast<V>(-1.5707963705e+00f), x);
  r = fma(n, broadcast<V>(4.3711388287e-08f), r);
  r = fma(n, broadcast<V>(1.7151245100e-15f), r);
  const V t = r * r;
  V s = broadcast<V>(-1.951083977e-04f);
  s = fma(s, t, broadcast<V>(8.332131431e-03f));
  s = fma(s, t, broadcast<V>(-1.666665375e-01f));
  s = fma(s * t, r, r);
  V c = broadcast<V>(2.443120684e-05f);
  c = fma(c, t, broadcast<V>(-1.388730598e-03f));
  c = fma(c, t, broadcast<V>(4.166664556e-02f));
  c = fma(c, t * t, fma(broadcast<V>(-0.5f), t, broadcast<V>(1.0f)));
  const IntLanes<V> quadrant = bits_of(shifted);
  const V odd = from_bits<V>((quadrant & 1) << 29);  // 0 or a small positive number: a mask for select_less
  const V zero = broadcast<V>(0.0f);
  const V sin = select_less(zero, odd, c, s), cos = select_less(zero, odd, s, c);
  const IntLanes<V> sin_sign = (quadrant & 2) << 30;
  const IntLanes<V> cos_sign = ((quadrant + 1) & 2) << 30;
  return {from_bits<V>(bits_of(sin) ^ sin_sign), from_bits<V>(bits_of(cos) ^ cos_sign)};
}

// The order of every sum in a norm or a softmax: element i joins partial sum i mod 32, in order of i; then the
// partial sums are merged by halves, 16 + 16, 8 + 8, 4 + 4, 2 + 2, 1 + 1.
inline constexpr int kPartials = 32;
DRAFTHORSE_LANES_INLINE float merge32(float (&partial)[kPartials]) {
  for (int half = kPartials / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) partial[i] = partial[i] + partial[i + half];
  }
  return partial[0];
}

// Sum of x in that order.
DRAFTHORSE_LANES_INLINE float sum32(std::span<const float> x) {
  float partial[kPartials] = {};
  for (size_t i = 0; i < x.size(); ++i) partial[i % kPartials] += x[i];
  return merge32(partial);
}

// Sum of squares in that order, each square added by one fma.
DRAFTHORSE_LANES_INLINE float sum_squares32(std::span<const float> x) {
  float partial[kPartials] = {};
  for (size_t i = 0; i < x.size(); ++i) partial[i % kPartials] = __builtin_fmaf(x[i], x[i], partial[i % kPartials]);
  return merge32(partial);
}

}  // namespace drafthorse
