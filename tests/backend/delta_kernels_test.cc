// The delta rule's kernels against the loops of delta.h, bit for bit, on every instruction set of this machine.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "backend/cpu/row_kernels.h"
#include "core/math.h"

namespace drafthorse::cpu {
namespace {

using Floats = std::vector<float>;

std::vector<const RowKernels*> all_kernels() {
  std::vector<const RowKernels*> found;
  for (const char* isa : {"portable", "avx2", "avx512", "neon"}) {
    if (const RowKernels* kernels = row_kernels(isa)) found.push_back(kernels);
  }
  return found;
}

bool same_bits(const Floats& a, const Floats& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
}

// Rows of one head, two stripes of values; `other` gates stand between those of one row and the next.
struct Head {
  Head(int count, int key_dim, unsigned seed) : count(count), key_dim(key_dim) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    auto fill = [&](Floats& x, size_t n, float scale) {
      x.reserve(n + kValues);  // no rows at all still have an address to step from
      x.resize(n);
      for (float& e : x) e = scale * normal(random);
    };
    fill(q, size_t(count) * key_dim, 0.3f), fill(k, size_t(count) * key_dim, 0.3f), fill(v, size_t(count) * kValues, 1);
    fill(state, size_t(key_dim) * kStripe, 0.5f), fill(g, size_t(count) * kGates, 1), fill(beta, g.size(), 1);
    for (float& e : g) e = sigmoid_fixed(e + 2);
    for (float& e : beta) e = sigmoid_fixed(e);
    for (Floats* out : {&y, &delta}) {
      out->reserve(v.size() + kValues);
      out->resize(v.size());
    }
  }
  DeltaRows rows(int stripe) {
    DeltaRows r;
    r.count = count, r.key_dim = key_dim, r.q = q.data(), r.k = k.data();
    r.v = v.data() + stripe * kStripe, r.y = y.data() + stripe * kStripe, r.delta = delta.data() + stripe * kStripe;
    r.g = g.data(), r.beta = beta.data();
    r.value_stride = r.y_stride = kValues, r.gate_stride = kGates;
    return r;
  }
  static constexpr int kValues = 2 * kStripe, kGates = 3;
  int count, key_dim;
  Floats q, k, v, g, beta, state, y, delta;
};

void expected_row(Head& h, int stripe, int row) {
  const float *k = &h.k[size_t(row) * h.key_dim], *q = &h.q[size_t(row) * h.key_dim];
  const float g = h.g[size_t(row) * Head::kGates], beta = h.beta[size_t(row) * Head::kGates];
  for (int lane = 0; lane < kStripe; ++lane) {
    const size_t at = size_t(row) * Head::kValues + stripe * kStripe + lane;
    float p[4] = {};
    for (int i = 0; i < h.key_dim; ++i) p[i % 4] = std::fma(g * h.state[i * kStripe + lane], k[i], p[i % 4]);
    const float delta = h.delta[at] = beta * (h.v[at] - ((p[0] + p[1]) + (p[2] + p[3])));
    float out[4] = {};
    for (int i = 0; i < h.key_dim; ++i) {
      float& s = h.state[i * kStripe + lane];
      s = std::fma(k[i], delta, g * s);
      out[i % 4] = std::fma(s, q[i], out[i % 4]);
    }
    h.y[at] = (out[0] + out[1]) + (out[2] + out[3]);
  }
}

TEST(DeltaKernels, RowsAreTheLoopsOfTheHeader) {
  for (const RowKernels* kernels : all_kernels()) {
    for (int key_dim : {1, 6, 16, 128}) {
      for (int count : {0, 1, 2, 5, 40}) {
        for (int stripe : {0, 1}) {
          Head expected(count, key_dim, 3), got(count, key_dim, 3);
          for (int row = 0; row < count; ++row) expected_row(expected, stripe, row);
          kernels->delta_rows(got.rows(stripe), got.state.data());
          EXPECT_TRUE(same_bits(got.state, expected.state)) << kernels->isa << ", " << count << " of " << key_dim;
          EXPECT_TRUE(same_bits(got.y, expected.y));
          EXPECT_TRUE(same_bits(got.delta, expected.delta));
        }
      }
    }
  }
}

TEST(DeltaKernels, AReplayedTapeGivesTheStateOfItsRows) {
  for (const RowKernels* kernels : all_kernels()) {
    for (int key_dim : {1, 6, 128}) {
      for (int count = 0; count <= 16; ++count) {
        Head head(count, key_dim, 5);
        const Floats before = head.state;
        kernels->delta_rows(head.rows(1), head.state.data());
        // A tape row: k, delta, g.
        const int64_t stride = key_dim + Head::kValues + 1;
        Floats tape(size_t((count + 1) * stride)), state = before;  // no rows at all still have an address
        for (int row = 0; row < count; ++row) {
          float* at = &tape[size_t(row * stride)];
          std::copy_n(&head.k[size_t(row) * key_dim], key_dim, at);
          std::copy_n(&head.delta[size_t(row) * Head::kValues], Head::kValues, at + key_dim);
          at[key_dim + Head::kValues] = head.g[size_t(row) * Head::kGates];
        }
        kernels->delta_replay({count, key_dim, tape.data(), tape.data() + key_dim + kStripe,
                               tape.data() + key_dim + Head::kValues, stride},
                              state.data());
        EXPECT_TRUE(same_bits(state, head.state)) << kernels->isa << ", " << count << " of " << key_dim;
      }
    }
  }
}

TEST(DeltaKernels, ConvolutionIsTheFormula) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (const RowKernels* kernels : all_kernels()) {
    for (int kernel : {1, 2, 4, 7}) {
      for (int n : {1, 20, 128}) {
        Floats inputs(size_t(kernel) * n), taps(size_t(kernel) * (n + 5)), out(n), expected(n);
        for (float& x : inputs) x = normal(random);
        for (float& x : taps) x = normal(random);
        std::vector<const float*> rows;
        for (int j = 0; j < kernel; ++j) rows.push_back(&inputs[size_t(j) * n]);
        kernels->conv_silu(rows.data(), taps.data(), n + 5, kernel, n, out.data());
        for (int c = 0; c < n; ++c) {
          float sum = 0;
          for (int j = 0; j < kernel; ++j) sum = std::fma(taps[size_t(j) * (n + 5) + c], rows[j][c], sum);
          expected[c] = silu_fixed(sum);
        }
        EXPECT_TRUE(same_bits(out, expected)) << kernels->isa << ", " << n << " channels, " << kernel << " taps";
      }
    }
  }
}

}  // namespace
}  // namespace drafthorse::cpu
