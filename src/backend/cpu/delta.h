#pragma once
// The gated delta rule on 16 outputs of a head at a time. A head's state S [value_dim, key_dim] lies in stripes of 16
// value lanes, [key_dim][16] fp32: a stripe stays in the nearest cache while all rows of a call go through it.
//
// One row, for each lane: p[0..3] = 0; for i in order { s = g * S[i]; p[i % 4] = fma(s, k[i], p[i % 4]); }
//   m = (p0 + p1) + (p2 + p3); delta = beta * (v - m); p[0..3] = 0;
//   for i in order { S[i] = fma(k[i], delta, g * S[i]); p[i % 4] = fma(S[i], q[i], p[i % 4]); } y = (p0 + p1) + (p2 + p3).
// A row replayed from its tape: S[i] = fma(k[i], delta, g * S[i]).
//
// RowKernels::conv_silu: a causal depthwise convolution of n channels, then silu: acc = 0; for j in order
//   acc = fma(taps[j * tap_stride + c], rows[j][c], acc); out[c] = silu(acc).

#include <cstdint>

namespace drafthorse::cpu {

inline constexpr int kStripe = 16;  // value lanes of a stripe

// Rows of one head against one stripe; pointers at the first row and the stripe's first lane.
struct DeltaRows {
  int count = 0, key_dim = 0;
  const float *q = nullptr, *k = nullptr;     // normed, [count][key_dim]
  const float* v = nullptr;                   // [count][16], rows value_stride apart
  float* y = nullptr;                         // [count][16], rows y_stride apart
  float* delta = nullptr;                     // [count][16], rows value_stride apart; null: not wanted
  const float *g = nullptr, *beta = nullptr;  // [count], rows gate_stride apart
  int64_t value_stride = 0, y_stride = 0, gate_stride = 0;
};

// Rows kept by an earlier call; `stride` floats from row to row in all three.
struct DeltaTape {
  int count = 0, key_dim = 0;
  const float *k = nullptr, *delta = nullptr, *g = nullptr;
  int64_t stride = 0;
};

}  // namespace drafthorse::cpu
