#pragma once
// Templates of the delta rule's kernels over an instruction set (see row_kernels_impl.h for Isa).

#include "backend/cpu/delta.h"
#include "backend/cpu/row_kernels_impl.h"

namespace drafthorse::cpu {

template <class Isa>
struct DeltaOf {
  static constexpr int W = Isa::width;
  using V = Lanes<W>;
  static constexpr int C = kStripe / W;  // vectors of a stripe
  static constexpr int kSums = 4;

  struct Sums {
    V at[kSums][C];
    [[gnu::always_inline]] void clear() {
      for (auto& sum : at) {
        for (V& s : sum) s = broadcast<V>(0.0f);
      }
    }
    [[gnu::always_inline]] V total(int c) const { return (at[0][c] + at[1][c]) + (at[2][c] + at[3][c]); }
  };

  // body(i, j): element i, whose partial sum is j = i % kSums, a constant in the unrolled loop.
  template <class Body>
  [[gnu::always_inline]] static inline void elements(int n, Body body) {
    int i = 0;
    for (; i + kSums <= n; i += kSums) {
      body(i, 0);
      body(i + 1, 1);
      body(i + 2, 2);
      body(i + 3, 3);
    }
    for (int j = 0; i < n; ++i, ++j) body(i, j);
  }

  static void delta_row(const DeltaRows& rows, int row, float* state) {
    const float* k = rows.k + int64_t(row) * rows.key_dim;
    const float* q = rows.q + int64_t(row) * rows.key_dim;
    const V g = broadcast<V>(rows.g[row * rows.gate_stride]), beta = broadcast<V>(rows.beta[row * rows.gate_stride]);
    Sums sums;
    sums.clear();
    elements(
        rows.key_dim, [&](int i, int j) __attribute__((always_inline)) {
          const V ki = broadcast<V>(k[i]);
          for (int c = 0; c < C; ++c) {
            sums.at[j][c] = fma(g * load_lanes<V>(state + i * kStripe + c * W), ki, sums.at[j][c]);
          }
        });
    V delta[C];
    for (int c = 0; c < C; ++c) {
      delta[c] = beta * (load_lanes<V>(rows.v + row * rows.value_stride + c * W) - sums.total(c));
      if (rows.delta) store_lanes(rows.delta + row * rows.value_stride + c * W, delta[c]);
    }
    sums.clear();
    elements(
        rows.key_dim, [&](int i, int j) __attribute__((always_inline)) {
          const V ki = broadcast<V>(k[i]), qi = broadcast<V>(q[i]);
          for (int c = 0; c < C; ++c) {
            float* at = state + i * kStripe + c * W;
            const V s = fma(ki, delta[c], g * load_lanes<V>(at));
            store_lanes(at, s);
            sums.at[j][c] = fma(s, qi, sums.at[j][c]);
          }
        });
    for (int c = 0; c < C; ++c) store_lanes(rows.y + row * rows.y_stride + c * W, sums.total(c));
  }

  static void delta_rows(const DeltaRows& rows, float* state) {
    for (int row = 0; row < rows.count; ++row) delta_row(rows, row, state);
  }

  static void delta_replay(const DeltaTape& tape, float* state) {
    for (int row = 0; row < tape.count; ++row) {
      const float* k = tape.k + row * tape.stride;
      const V g = broadcast<V>(tape.g[row * tape.stride]);
      V delta[C];
      for (int c = 0; c < C; ++c) delta[c] = load_lanes<V>(tape.delta + row * tape.stride + c * W);
      for (int i = 0; i < tape.key_dim; ++i) {
        const V ki = broadcast<V>(k[i]);
        for (int c = 0; c < C; ++c) {
          float* at = state + i * kStripe + c * W;
          store_lanes(at, fma(ki, delta[c], g * load_lanes<V>(at)));
        }
      }
    }
  }

  static void conv_silu(const float* const* rows, const float* taps, int64_t tap_stride, int kernel, int n,
                        float* out) {
    Rows<Isa>::each(n, [=](int i, auto v) {
      using T = decltype(v);
      T sum = broadcast<T>(0.0f);
      for (int j = 0; j < kernel; ++j) {
        sum = fma(load_lanes<T>(taps + j * tap_stride + i), load_lanes<T>(rows[j] + i), sum);
      }
      store_lanes(out + i, silu_fixed(sum));
    });
  }
};

}  // namespace drafthorse::cpu
