#include "backend/reference/delta_net.h"

#include <cmath>

#include "core/math.h"

namespace drafthorse::reference {
namespace {

// The vectors of a layer, as fp32.
struct Vectors {
  Row conv;     // [channels][kernel]
  Row decay;    // [value_heads], negative
  Row dt_bias;  // [value_heads]
};

Vectors read_vectors(const DeltaNet& part) {
  Vectors v{read_vector(part.conv), read_vector(part.decay), read_vector(part.dt_bias)};
  if (part.decay_is_log) {
    for (float& d : v.decay) d = -exp_fixed(d);
  }
  return v;
}

// The convolution of one row and silu; the row becomes the newest that the state keeps.
Row convolve(const DeltaNet& part, const Row& weights, const Row& u, RowsOf& kept) {
  const size_t kernel = size_t(part.kernel);
  kept.push_back(u);
  Row c(u.size());
  for (size_t i = 0; i < u.size(); ++i) {
    float sum = 0;
    for (size_t j = 0; j < kernel; ++j) sum = std::fma(weights[i * kernel + j], kept[j][i], sum);
    c[i] = silu_fixed(sum);
  }
  kept.erase(kept.begin());
  return c;
}

// head / sqrt(sum head^2 + 1e-6) * scale
void normalise(std::span<float> head, float scale) {
  const float r = 1.0f / std::sqrt(sum_squares32(head) + 1e-6f) * scale;
  for (float& e : head) e *= r;
}

// S = g S; delta = beta (v - S k); S = S + delta k^T; y = S q. Each lane of v is a row of S with its own sums, in four
// partial sums by the index modulo 4.
void step(std::span<const float> q, std::span<const float> k, std::span<const float> v, float beta, float g,
          std::span<float> s, std::span<float> y) {
  const size_t n = k.size();
  for (size_t lane = 0; lane < v.size(); ++lane) {
    float* row = &s[lane * n];
    float p[4] = {};
    for (size_t i = 0; i < n; ++i) p[i % 4] = std::fma(g * row[i], k[i], p[i % 4]);
    const float delta = beta * (v[lane] - ((p[0] + p[1]) + (p[2] + p[3])));
    float out[4] = {};
    for (size_t i = 0; i < n; ++i) {
      row[i] = std::fma(k[i], delta, g * row[i]);
      out[i % 4] = std::fma(row[i], q[i], out[i % 4]);
    }
    y[lane] = (out[0] + out[1]) + (out[2] + out[3]);
  }
}

}  // namespace

DeltaState empty_state(const DeltaNet& part) {
  const size_t keys = size_t(part.key_heads) * size_t(part.key_dim);
  const size_t values = size_t(part.value_heads) * size_t(part.value_dim);
  return {RowsOf(size_t(part.kernel) - 1, Row(2 * keys + values)), Row(values * size_t(part.key_dim))};
}

RowsOf delta_net(const DeltaNet& part, const RowsOf& x, int tentative, DeltaHistory& history, Mode mode) {
  const size_t dk = size_t(part.key_dim), dv = size_t(part.value_dim), keys = size_t(part.key_heads) * dk;
  const Vectors vectors = read_vectors(part);
  const RowsOf u = linear(part.qkv, x, mode), z = linear(part.z, x, mode);
  const RowsOf b = linear(part.b, x, mode), a = linear(part.a, x, mode);
  history.erase(history.begin(), history.end() - 1);
  RowsOf y(x.size(), Row(size_t(part.value_heads) * dv));
  for (size_t r = 0; r < x.size(); ++r) {
    if (r + size_t(tentative) >= x.size()) history.push_back(DeltaState(history.back()));
    DeltaState& state = history.back();
    Row c = convolve(part, vectors.conv, u[r], state.conv);
    for (int h = 0; h < part.key_heads; ++h) {
      normalise({&c[h * dk], dk}, 1.0f / std::sqrt(float(dk)));
      normalise({&c[keys + h * dk], dk}, 1.0f);
    }
    for (int h = 0; h < part.value_heads; ++h) {
      const size_t key_head = size_t(part.tiled_heads ? h % part.key_heads : h / (part.value_heads / part.key_heads));
      const float beta = sigmoid_fixed(b[r][h]);
      const float g = exp_fixed(vectors.decay[h] * softplus_fixed(a[r][h] + vectors.dt_bias[h]));
      const std::span<float> out(&y[r][h * dv], dv);
      step({&c[key_head * dk], dk}, {&c[keys + key_head * dk], dk}, {&c[2 * keys + h * dv], dv}, beta, g,
           {&state.s[h * dv * dk], dv * dk}, out);
      norm(part.norm, out);
    }
    for (size_t i = 0; i < y[r].size(); ++i) {
      const float gate = z[r][i];
      y[r][i] = (part.gate == Activation::silu ? silu_fixed(gate) : sigmoid_fixed(gate)) * y[r][i];
    }
  }
  return linear(part.out, y, mode);
}

}  // namespace drafthorse::reference
