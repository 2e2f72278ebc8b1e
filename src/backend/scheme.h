#pragma once
// What a quantised weight means, and the one order in which a product of weights and activations is summed.
// Packing, every instruction set and the reference backend follow this page; their results are equal bit for bit.
//
// Weights. A row is cut into groups of `group` inputs. A group has integer codes, a scale and optionally a bias:
//   w[k] = scale * (code[k] - zero) + bias          zero: an integer, the same for the whole format
//
//   format        group  codes            zero  scale (exact fp32)      bias
//   q4_0          32     0..15            8     d                       -
//   q4_1          32     0..15            0     d                       m
//   q5_0          32     0..31            16    d                       -
//   q5_1          32     0..31            0     d                       m
//   q8_0          32     -128..127        0     d                       -
//   q2_k          16     0..3             0     d * sc                  -(dmin * m)
//   q3_k          16     0..7             4     d * (sc - 32)           -
//   q4_k          32     0..15            0     d * sc                  -(dmin * m)
//   q5_k          32     0..31            0     d * sc                  -(dmin * m)
//   q6_k          16     0..63            32    d * sc                  -
//   iq4_nl        32     table, -127..113 0     d                       -
//   iq4_xs        32     table            0     d * (ls - 32)           -
//   mxfp4 (both)  32     2 * E2M1         0     2^(e - 127) / 2         -
//   nvfp4         16     2 * E2M1         0     E4M3 / 2                -
//   affine        32, 64 or 128; 0..2^bits-1    0  scale                bias
//   f32 f16 bf16  -      the value itself, product with fp32 activations
//   mxfp8         -      E4M3 * 2^(e - 127), rounded once to fp32, product with fp32 activations
//
// Activations. Each group of A inputs of a row (A = 64 where the weight's group is a multiple of 64, else 32) is
// quantised by itself, so the result is a function of the row alone:
//   m = max |x|;  d = m / 127;  id = d > 0 ? 1 / d : 0;  q = round_to_nearest_even(x * id) in -127..127
// each operation in fp32. A subnormal d whose inverse overflows counts as d = 0. A group with an infinity or NaN has
// d = NaN and q = 0, so that the fault shows in every output instead of hiding.
//
// Order of the sum. Segments of 512 inputs; total = 0, acc = 0 at a segment's start; inside it, weight group by group
// (a weight group wider than A is cut at A; two groups of 16 share one activation group):
//   dot = sum of (code - zero) * q              exact integer
//   acc = fma(float(dot), scale * d, acc)
//   acc = fma(bias, d * float(sum of q), acc)   only in formats with a bias
// then total = total + acc. Float formats: acc = fma(w[k], x[k], acc), k ascending, segments alike.

#include <cstdint>
#include <span>
#include <string>

#include "backend/activation_format.h"
#include "core/result.h"
#include "weights/tensor.h"

namespace drafthorse {

// The shape of a format's scheme.
struct Scheme {
  ActivationKind activations = ActivationKind::f32;
  int group = 0;  // inputs a scale covers; 0: float format
  int zero = 0;
  bool biased = false;
  int activation_group() const { return activations == ActivationKind::int8_group64 ? 64 : 32; }
  int step() const { return group < activation_group() ? group : activation_group(); }  // inputs of one fma
};

// The scheme of a weight matrix [outputs, inputs].
// Errors: unsupported (format, bits, group or scale dtype, with the tensor's name), corrupt (sizes that do not fit).
Result<Scheme> scheme_of(const TensorView& weight);

// One row of a quantised weight: codes [inputs], scales [inputs / group], biases [inputs / group] (biased formats).
void read_row(const TensorView& weight, const Scheme& scheme, int64_t row, std::span<int16_t> codes,
              std::span<float> scales, std::span<float> biases);
// The two-level scales of 256 inputs in q2_k … q6_k and iq4_xs: scale = d * scale[g], bias = -(dmin * min[g]).
struct SuperScales {
  float d, dmin;
  int scale[16], min[16];
};
SuperScales read_super_scales(const TensorView& weight, int64_t row, int64_t block);

// One row of a float-format weight, exact fp32: values [inputs].
void read_float_row(const TensorView& weight, int64_t row, std::span<float> values);

// Quantises n inputs (n a multiple of A): q [n], d [n / A]. The definition, in scalar code.
void quantise_row(std::span<const float> x, int activation_group, std::span<int8_t> q, std::span<float> d);

// y[r * ldy + o] = sum over k of weight[o, k] * x[r * ldx + k], in the order above; every output. `fp32_activations`
// keeps x unquantised and sums w * x in double (the oracle against float implementations).
Status reference_matmul(const TensorView& weight, const float* x, int64_t ldx, int rows, float* y, int64_t ldy,
                        bool fp32_activations = false);

}  // namespace drafthorse
