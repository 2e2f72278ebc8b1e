#include "backend/scheme.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace drafthorse {
namespace {

// Bytes of `columns` inputs of one row; 0 when the format is not a matrix of weights.
int64_t row_bytes(const TensorView& w) {
  int64_t columns = w.columns();
  switch (w.format) {
    case Format::f32: return columns * 4;
    case Format::f16:
    case Format::bf16: return columns * 2;
    case Format::q4_0:
    case Format::iq4_nl: return columns / 32 * 18;
    case Format::q4_1: return columns / 32 * 20;
    case Format::q5_0: return columns / 32 * 22;
    case Format::q5_1: return columns / 32 * 24;
    case Format::q8_0: return columns / 32 * 34;
    case Format::mxfp4_blocks: return columns / 32 * 17;
    case Format::q2_k: return columns / 256 * 84;
    case Format::q3_k: return columns / 256 * 110;
    case Format::q4_k: return columns / 256 * 144;
    case Format::q5_k: return columns / 256 * 176;
    case Format::q6_k: return columns / 256 * 210;
    case Format::iq4_xs: return columns / 256 * 136;
    case Format::affine: return columns / 8 * w.bits;
    case Format::mxfp4:
    case Format::nvfp4: return columns / 2;
    case Format::mxfp8: return columns;
    default: return 0;
  }
}

Scheme shape_of(const TensorView& w) {
  constexpr auto by32 = ActivationKind::int8_group32;
  switch (w.format) {
    case Format::q4_0: return {by32, 32, 8, false};
    case Format::q4_1: return {by32, 32, 0, true};
    case Format::q5_0: return {by32, 32, 16, false};
    case Format::q5_1: return {by32, 32, 0, true};
    case Format::q8_0:
    case Format::iq4_nl:
    case Format::iq4_xs:
    case Format::mxfp4:
    case Format::mxfp4_blocks: return {by32, 32, 0, false};
    case Format::q2_k: return {by32, 16, 0, true};
    case Format::q3_k: return {by32, 16, 4, false};
    case Format::q4_k:
    case Format::q5_k: return {by32, 32, 0, true};
    case Format::q6_k: return {by32, 16, 32, false};
    case Format::nvfp4: return {by32, 16, 0, false};
    case Format::affine: return {w.group_size % 64 == 0 ? ActivationKind::int8_group64 : by32, w.group_size, 0, true};
    default: return {};
  }
}

// Inputs must be a multiple of this.
int64_t input_multiple(const TensorView& w) {
  switch (w.format) {
    case Format::f32:
    case Format::f16:
    case Format::bf16: return 1;
    case Format::q2_k:
    case Format::q3_k:
    case Format::q4_k:
    case Format::q5_k:
    case Format::q6_k:
    case Format::iq4_xs: return 256;
    case Format::affine: return w.group_size;
    default: return 32;
  }
}

Status check_affine(const TensorView& w) {
  if (!(w.bits >= 2 && w.bits <= 6) && w.bits != 8) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: {} bits a weight (2, 3, 4, 5, 6 and 8 are supported)", w.name, w.bits),
                 {}};
  }
  if (w.group_size != 32 && w.group_size != 64 && w.group_size != 128) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("{}: quantisation groups of {} inputs (32, 64 and 128 are supported)", w.name, w.group_size),
        {}};
  }
  if (w.scale_format != Format::bf16 && w.scale_format != Format::f16 && w.scale_format != Format::f32) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: scales in {} (bf16, f16 and f32 are supported)", w.name, name(w.scale_format)),
                 {}};
  }
  return {};
}

Status check_size(const TensorView& w, const char* part, size_t found, int64_t expected) {
  if (static_cast<int64_t>(found) == expected) return {};
  return Error{ErrorKind::corrupt,
               fmt::format("{}: {} of {} bytes, expected {} for a {} matrix of {} x {}", w.name, part, found, expected,
                           name(w.format), w.rows(), w.columns()),
               {}};
}

// Bytes of one scale and how many inputs it covers; {0, 0} when scales lie inside the data.
std::pair<int64_t, int64_t> outer_scales(const TensorView& w) {
  switch (w.format) {
    case Format::affine: return {w.scale_format == Format::f32 ? 4 : 2, w.group_size};
    case Format::mxfp4:
    case Format::mxfp8: return {1, 32};
    case Format::nvfp4: return {1, 16};
    default: return {0, 0};
  }
}

void quantise_group(const float* x, int n, int8_t* q, float& d_out) {
  float max = 0;
  bool finite = true;
  for (int k = 0; k < n; k++) {
    max = std::max(max, std::fabs(x[k]));
    finite = finite && std::isfinite(x[k]);
  }
  float d = max / 127.0f, id = d > 0 ? 1.0f / d : 0.0f;
  if (!finite) d = std::numeric_limits<float>::quiet_NaN(), id = 0;
  if (!std::isfinite(id)) d = 0, id = 0;
  for (int k = 0; k < n; k++) q[k] = id == 0 ? 0 : static_cast<int8_t>(std::lrint(x[k] * id));
  d_out = d;
}

// One output of one row, in the order of scheme.h.
float quantised_dot(const Scheme& scheme, int64_t inputs, const int16_t* codes, const float* scales,
                    const float* biases, const int8_t* q, const float* d) {
  const int step = scheme.step(), activation_group = scheme.activation_group();
  float total = 0;
  for (int64_t begin = 0; begin < inputs; begin += kSegment) {
    int64_t end = std::min(begin + kSegment, inputs);
    float acc = 0;
    for (int64_t k0 = begin; k0 < end; k0 += step) {
      int32_t dot = 0, sum = 0;
      for (int64_t k = k0; k < k0 + step; k++) {
        dot += (codes[k] - scheme.zero) * q[k];
        sum += q[k];
      }
      float x_scale = d[k0 / activation_group];
      acc = std::fma(static_cast<float>(dot), scales[k0 / scheme.group] * x_scale, acc);
      if (scheme.biased) acc = std::fma(biases[k0 / scheme.group], x_scale * static_cast<float>(sum), acc);
    }
    total += acc;
  }
  return total;
}

float float_dot(int64_t inputs, const float* w, const float* x) {
  float total = 0;
  for (int64_t begin = 0; begin < inputs; begin += kSegment) {
    float acc = 0;
    for (int64_t k = begin; k < std::min(begin + kSegment, inputs); k++) acc = std::fma(w[k], x[k], acc);
    total += acc;
  }
  return total;
}

float exact_dot(int64_t inputs, const float* w, const float* x) {
  double total = 0;
  for (int64_t k = 0; k < inputs; k++) total += static_cast<double>(w[k]) * x[k];
  return static_cast<float>(total);
}

// The rounded fp32 values of a quantised row.
void values_of(const Scheme& scheme, const std::vector<int16_t>& codes, const std::vector<float>& scales,
               const std::vector<float>& biases, std::vector<float>& values) {
  for (size_t k = 0; k < values.size(); k++) {
    size_t g = k / scheme.group;
    double value = static_cast<double>(scales[g]) * (codes[k] - scheme.zero) + (scheme.biased ? biases[g] : 0.0f);
    values[k] = static_cast<float>(value);
  }
}

}  // namespace

Result<Scheme> scheme_of(const TensorView& w) {
  if (row_bytes(w) <= 0 || w.shape.size() < 2) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: a {} tensor of {} dimensions cannot be a weight matrix", w.name, name(w.format),
                             w.shape.size()),
                 {}};
  }
  if (w.format == Format::affine) {
    if (Status status = check_affine(w); !status) return status.error();
  }
  if (w.rows() <= 0 || w.columns() % input_multiple(w) != 0) {
    return Error{ErrorKind::corrupt,
                 fmt::format("{}: {} inputs in format {}, expected a multiple of {}", w.name, w.columns(),
                             name(w.format), input_multiple(w)),
                 {}};
  }
  if (Status status = check_size(w, "data", w.data.size(), w.rows() * row_bytes(w)); !status) return status.error();
  auto [scale_bytes, inputs] = outer_scales(w);
  int64_t scales = inputs ? w.rows() * (w.columns() / inputs) * scale_bytes : 0;
  if (Status status = check_size(w, "scales", w.scales.size(), scales); !status) return status.error();
  int64_t biases = w.format == Format::affine ? scales : 0;
  if (Status status = check_size(w, "biases", w.biases.size(), biases); !status) return status.error();
  return shape_of(w);
}

void quantise_row(std::span<const float> x, int activation_group, std::span<int8_t> q, std::span<float> d) {
  for (size_t g = 0; g < x.size() / activation_group; g++) {
    quantise_group(x.data() + g * activation_group, activation_group, q.data() + g * activation_group, d[g]);
  }
}

Status reference_matmul(const TensorView& weight, const float* x, int64_t ldx, int rows, float* y, int64_t ldy,
                        bool fp32_activations) {
  Result<Scheme> found = scheme_of(weight);
  if (!found) return found.error();
  const Scheme scheme = *found;
  const int64_t inputs = weight.columns(), outputs = weight.rows();
  const bool quantised = scheme.group > 0;
  std::vector<int16_t> codes(quantised ? inputs : 0);
  std::vector<float> scales(quantised ? inputs / scheme.group : 0), biases(scales.size()), values(inputs);
  std::vector<int8_t> q(quantised ? rows * inputs : 0);
  const int64_t groups = inputs / scheme.activation_group();
  std::vector<float> d(quantised ? rows * groups : 0);
  for (int r = 0; r < rows && quantised; r++) {
    quantise_row({x + r * ldx, static_cast<size_t>(inputs)}, scheme.activation_group(),
                 std::span(q).subspan(r * inputs, inputs), std::span(d).subspan(r * groups, groups));
  }
  for (int64_t o = 0; o < outputs; o++) {
    if (quantised) {
      read_row(weight, scheme, o, codes, scales, biases);
      if (fp32_activations) values_of(scheme, codes, scales, biases, values);
    } else {
      read_float_row(weight, o, values);
    }
    for (int r = 0; r < rows; r++) {
      float& out = y[r * ldy + o];
      if (fp32_activations) {
        out = exact_dot(inputs, values.data(), x + r * ldx);
      } else if (quantised) {
        out = quantised_dot(scheme, inputs, codes.data(), scales.data(), biases.data(), q.data() + r * inputs,
                            d.data() + r * groups);
      } else {
        out = float_dot(inputs, values.data(), x + r * ldx);
      }
    }
  }
  return {};
}

}  // namespace drafthorse
