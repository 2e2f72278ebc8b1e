#include "backend/reference/parts.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "backend/rope.h"
#include "backend/scheme.h"
#include "core/half.h"
#include "core/math.h"

namespace drafthorse::reference {
namespace {

// Positions of a segment of the softmax (backend/cpu/attention.h gives the order of all sums).
constexpr int kSegmentPositions = 256;

struct Softmax {
  float max = 0, sum = 0;
  Row out;
};

float dot(std::span<const float> q, const float* k) {
  float sum = 0;
  for (size_t d = 0; d < q.size(); ++d) sum = std::fma(q[d], k[d], sum);
  return sum;
}

// Softmax over positions [first, last), all in the segment that starts at `start`.
Softmax segment(std::span<const float> q, const Cache& cache, size_t offset, int start, int first, int last,
                float softcap) {
  Softmax result;
  result.max = -INFINITY;
  float weights[kSegmentPositions] = {};
  for (int j = first; j < last; ++j) {
    float score = dot(q, &cache.keys[j][offset]);
    if (softcap > 0) score = softcap * tanh_fixed(score / softcap);
    weights[j - start] = score;
    result.max = score > result.max ? score : result.max;
  }
  for (int j = first; j < last; ++j) weights[j - start] = exp_fixed(weights[j - start] - result.max);
  float sums[kSegmentPositions];
  std::copy(std::begin(weights), std::end(weights), sums);
  for (int half = kSegmentPositions / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  result.sum = sums[0];
  result.out.assign(q.size(), 0.0f);
  for (int j = first; j < last; ++j) {
    for (size_t d = 0; d < q.size(); ++d) {
      result.out[d] = std::fma(weights[j - start], cache.values[j][offset + d], result.out[d]);
    }
  }
  return result;
}

void merge(const Softmax& next, Softmax& into) {
  const float most = next.max > into.max ? next.max : into.max;
  const float a = exp_fixed(into.max - most), b = exp_fixed(next.max - most);
  into.max = most;
  into.sum = std::fma(into.sum, a, next.sum * b);
  for (size_t d = 0; d < into.out.size(); ++d) into.out[d] = std::fma(into.out[d], a, next.out[d] * b);
}

// One query head over the positions that it sees, at `position`; offset: of its kv head in a cache row.
Row attend(const Attention& part, std::span<const float> q, const Cache& cache, size_t offset, int position) {
  const int first = part.window > 0 ? std::max(0, position - part.window + 1) : 0;
  Softmax state;
  for (int start = first / kSegmentPositions * kSegmentPositions; start <= position; start += kSegmentPositions) {
    const int from = std::max(first, start), to = std::min(position + 1, start + kSegmentPositions);
    Softmax next = segment(q, cache, offset, start, from, to, part.softcap);
    if (state.out.empty()) {
      state = std::move(next);
    } else {
      merge(next, state);
    }
  }
  for (float& o : state.out) o /= state.sum;
  return state.out;
}

void round_to_half(Row& row) {
  for (float& v : row) v = half_to_float(float_to_half(v));
}

}  // namespace

Row read_vector(const TensorView& tensor) {
  Row values(size_t(tensor.elements()));
  if (Status status = dequantise(tensor, 0, tensor.rows(), values); !status) {
    throw std::logic_error(status.error().message);  // load_reference has read every tensor
  }
  return values;
}

RowsOf linear(const Linear& layer, const RowsOf& x, Mode mode) {
  const size_t in = size_t(layer.in_features()), out = size_t(layer.out_features());
  Row inputs(x.size() * in), outputs(x.size() * out);
  for (size_t r = 0; r < x.size(); ++r) std::copy(x[r].begin(), x[r].end(), inputs.begin() + r * in);
  Status status = reference_matmul(layer.weight, inputs.data(), int64_t(in), int(x.size()), outputs.data(),
                                   int64_t(out), !mode.quantised);
  if (!status) throw std::logic_error(status.error().message);  // load_reference has tried the format
  RowsOf y;
  for (size_t r = 0; r < x.size(); ++r) y.emplace_back(outputs.begin() + r * out, outputs.begin() + (r + 1) * out);
  if (layer.bias) {
    const Row bias = read_vector(*layer.bias);
    for (Row& row : y) {
      for (size_t o = 0; o < out; ++o) row[o] += bias[o];
    }
  }
  return y;
}

void norm(const Norm& norm, std::span<float> x) {
  const float r = 1.0f / std::sqrt(sum_squares32(x) / float(x.size()) + norm.eps);
  Row weight = norm.weight ? read_vector(*norm.weight) : Row(x.size(), 1.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    if (norm.weight && norm.weight_offset != 0) weight[i] += norm.weight_offset;
    x[i] = (x[i] * r) * weight[i];
  }
}

void rope(const Rope& rope, int position, std::span<float> head) {
  const int half = rope.dims / 2;
  Row cos(half), sin(half);
  rope_row(rope, position, cos.data(), sin.data());
  for (int i = 0; i < half; ++i) {
    float& a = head[rope.interleaved ? 2 * i : i];
    float& b = head[rope.interleaved ? 2 * i + 1 : i + half];
    const float rotated_a = std::fma(a, cos[i], -(b * sin[i]));
    const float rotated_b = std::fma(b, cos[i], a * sin[i]);
    a = rotated_a, b = rotated_b;
  }
}

RowsOf attention(const Attention& part, const RowsOf& x, int first, Cache& cache, Mode mode) {
  const size_t d = size_t(part.head_dim);
  const int group = part.heads / part.kv_heads;
  const size_t stride = part.gated ? 2 * d : d;  // of q's heads: the query, then its gate
  RowsOf q = linear(part.q, x, mode), k = linear(part.k, x, mode), v = linear(part.v, x, mode);
  for (size_t r = 0; r < x.size(); ++r) {
    const int position = first + int(r);
    for (int h = 0; h < part.heads; ++h) {
      const std::span<float> head(&q[r][h * stride], d);
      if (part.q_norm) norm(*part.q_norm, head);
      rope(part.rope, position, head);
      for (float& e : head) e *= part.scale;
    }
    for (int h = 0; h < part.kv_heads; ++h) {
      const std::span<float> head(&k[r][h * d], d);
      if (part.k_norm) norm(*part.k_norm, head);
      rope(part.rope, position, head);
    }
    if (mode.quantised) round_to_half(k[r]), round_to_half(v[r]);
    cache.keys.push_back(k[r]);
    cache.values.push_back(v[r]);
  }
  RowsOf mixed(x.size());
  for (size_t r = 0; r < x.size(); ++r) {
    for (int h = 0; h < part.heads; ++h) {
      Row out = attend(part, std::span(&q[r][h * stride], d), cache, (h / group) * d, first + int(r));
      if (part.gated) {
        for (size_t i = 0; i < d; ++i) out[i] *= sigmoid_fixed(q[r][h * stride + d + i]);
      }
      mixed[r].insert(mixed[r].end(), out.begin(), out.end());
    }
  }
  return linear(part.o, mixed, mode);
}

RowsOf mlp(const Mlp& part, const RowsOf& x, Mode mode) {
  RowsOf gate = linear(part.gate, x, mode);
  const RowsOf up = linear(part.up, x, mode);
  for (size_t r = 0; r < x.size(); ++r) {
    for (size_t i = 0; i < gate[r].size(); ++i) {
      const float g = gate[r][i];
      gate[r][i] = (part.activation == Activation::silu ? silu_fixed(g) : gelu_tanh_fixed(g)) * up[r][i];
    }
  }
  return linear(part.down, gate, mode);
}

}  // namespace drafthorse::reference
