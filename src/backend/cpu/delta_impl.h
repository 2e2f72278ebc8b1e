#pragma once
// Templates of the delta rule's kernels over an instruction set (see row_kernels_impl.h for Isa).

#include "backend/cpu/delta.h"
#include "backend/cpu/row_kernels_impl.h"

namespace drafthorse::cpu {

template <class Isa>
struct DeltaOf {
  static constexpr int W = Isa::width;
  using V = Lanes<W>;
  static constexpr int kAll = kStripe / W;  // vectors of a stripe
  // Several rows go in slices of a stripe whose sums all fit in registers: of two rows, four partial sums each.
  static constexpr int kSlice = W == 4 ? 2 : 1;
  static constexpr int kSums = 4;
  static constexpr int kReplay = 4;  // rows replayed while an element is in its register

  template <int C>
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

  // The last step of a sum over keys: delta of the vectors of `lane`.
  template <int C>
  [[gnu::always_inline]] static inline void make_delta(const DeltaRows& rows, int row, int lane, const Sums<C>& keys,
                                                       V (&delta)[C]) {
    const V beta = broadcast<V>(rows.beta[row * rows.gate_stride]);
    for (int c = 0; c < C; ++c) {
      const int64_t at = row * rows.value_stride + lane + c * W;
      delta[c] = beta * (load_lanes<V>(rows.v + at) - keys.total(c));
      if (rows.delta) store_lanes(rows.delta + at, delta[c]);
    }
  }

  static void one_row(const DeltaRows& rows, float* state) {
    const V g = broadcast<V>(rows.g[0]);
    Sums<kAll> sums;
    sums.clear();
    elements(
        rows.key_dim, [&](int i, int j) __attribute__((always_inline)) {
          const V k = broadcast<V>(rows.k[i]);
          for (int c = 0; c < kAll; ++c) {
            sums.at[j][c] = fma(g * load_lanes<V>(state + i * kStripe + c * W), k, sums.at[j][c]);
          }
        });
    V delta[kAll];
    make_delta<kAll>(rows, 0, 0, sums, delta);
    sums.clear();
    elements(
        rows.key_dim, [&](int i, int j) __attribute__((always_inline)) {
          const V k = broadcast<V>(rows.k[i]), q = broadcast<V>(rows.q[i]);
          for (int c = 0; c < kAll; ++c) {
            float* at = state + i * kStripe + c * W;
            const V s = fma(k, delta[c], g * load_lanes<V>(at));
            store_lanes(at, s);
            sums.at[j][c] = fma(s, q, sums.at[j][c]);
          }
        });
    for (int c = 0; c < kAll; ++c) store_lanes(rows.y + c * W, sums.total(c));
  }

  // Between two rows an element holds g S of the next one, so that each row is one pass: it completes S and the sums of
  // this row's y, and decays S and sums S k for the next. Every operation is that of delta.h.
  static void several_rows(const DeltaRows& rows, int lane, float* state) {
    constexpr int C = kSlice;
    Sums<C> keys, queries;
    keys.clear();
    V g = broadcast<V>(rows.g[0]);
    elements(
        rows.key_dim, [&](int i, int j) __attribute__((always_inline)) {
          const V k = broadcast<V>(rows.k[i]);
          for (int c = 0; c < C; ++c) {
            float* at = state + i * kStripe + c * W;
            const V s = g * load_lanes<V>(at);
            store_lanes(at, s);
            keys.at[j][c] = fma(s, k, keys.at[j][c]);
          }
        });
    for (int row = 0; row < rows.count; ++row) {
      V delta[C];
      make_delta<C>(rows, row, lane, keys, delta);
      const float* k = rows.k + int64_t(row) * rows.key_dim;
      const float* q = rows.q + int64_t(row) * rows.key_dim;
      queries.clear();
      if (row + 1 == rows.count) {
        elements(
            rows.key_dim, [&](int i, int j) __attribute__((always_inline)) {
              for (int c = 0; c < C; ++c) {
                float* at = state + i * kStripe + c * W;
                const V s = fma(broadcast<V>(k[i]), delta[c], load_lanes<V>(at));
                store_lanes(at, s);
                queries.at[j][c] = fma(s, broadcast<V>(q[i]), queries.at[j][c]);
              }
            });
      } else {
        const float* next = k + rows.key_dim;
        g = broadcast<V>(rows.g[(row + 1) * rows.gate_stride]);
        keys.clear();
        elements(
            rows.key_dim, [&](int i, int j) __attribute__((always_inline)) {
              for (int c = 0; c < C; ++c) {
                float* at = state + i * kStripe + c * W;
                const V s = fma(broadcast<V>(k[i]), delta[c], load_lanes<V>(at));
                queries.at[j][c] = fma(s, broadcast<V>(q[i]), queries.at[j][c]);
                const V decayed = g * s;
                store_lanes(at, decayed);
                keys.at[j][c] = fma(decayed, broadcast<V>(next[i]), keys.at[j][c]);
              }
            });
      }
      for (int c = 0; c < C; ++c) store_lanes(rows.y + row * rows.y_stride + lane + c * W, queries.total(c));
    }
  }

  static void delta_rows(const DeltaRows& rows, float* state) {
    if (rows.count == 1) return one_row(rows, state);
    if (rows.count == 0) return;
    for (int lane = 0; lane < kStripe; lane += kSlice * W) several_rows(rows, lane, state + lane);
  }

  // R rows, one after another on each element.
  template <int R>
  static void replay_rows(const DeltaTape& tape, int first, float* state) {
    const float* k[R];
    V g[R], delta[R][kAll];
    for (int r = 0; r < R; ++r) {
      const int64_t row = (first + r) * tape.stride;
      k[r] = tape.k + row;
      g[r] = broadcast<V>(tape.g[row]);
      for (int c = 0; c < kAll; ++c) delta[r][c] = load_lanes<V>(tape.delta + row + c * W);
    }
    for (int i = 0; i < tape.key_dim; ++i) {
      float* at = state + i * kStripe;
      V s[kAll];
      for (int c = 0; c < kAll; ++c) s[c] = load_lanes<V>(at + c * W);
      for (int r = 0; r < R; ++r) {
        const V ki = broadcast<V>(k[r][i]);
        for (int c = 0; c < kAll; ++c) s[c] = fma(ki, delta[r][c], g[r] * s[c]);
      }
      for (int c = 0; c < kAll; ++c) store_lanes(at + c * W, s[c]);
    }
  }

  static void delta_replay(const DeltaTape& tape, float* state) {
    int row = 0;
    for (; row + kReplay <= tape.count; row += kReplay) replay_rows<kReplay>(tape, row, state);
    switch (tape.count - row) {
      case 1: return replay_rows<1>(tape, row, state);
      case 2: return replay_rows<2>(tape, row, state);
      case 3: return replay_rows<3>(tape, row, state);
      default: return;
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
