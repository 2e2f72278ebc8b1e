#pragma once
// What the CPU backend computes besides matrix products: norms, rope, activations and attention, one table of
// functions for each instruction set. All tables give the same bits: the templates in row_kernels_impl.h and
// attention_impl.h are one sequence of fp32 operations a lane, whatever the width.

#include <cstdint>
#include <string_view>

#include "backend/cpu/attention.h"
#include "backend/cpu/delta.h"

namespace drafthorse::cpu {

struct RowKernels {
  std::string_view isa;
  // y[i] = x[i] * (1 / sqrt(sum_squares32(x) / n + eps)) * weight[i]. x may be y.
  void (*rms_norm)(const float* x, const float* weight, float eps, int n, float* y);
  // gate[i] = silu(gate[i]) * up[i], and the same with gelu_tanh.
  void (*silu_times)(float* gate, const float* up, int n);
  void (*gelu_times)(float* gate, const float* up, int n);
  // x[i] += y[i]
  void (*add)(float* x, const float* y, int n);
  // x[i] *= factor
  void (*multiply)(float* x, float factor, int n);
  // x[i] = cap * tanh(x[i] / cap)
  void (*softcap)(float* x, float cap, int n);
  // Rotates pairs of head: (a, b) -> (a cos - b sin, b cos + a sin). Half split: pairs (i, i + n/2); interleaved:
  // (2i, 2i + 1). cos, sin: [n / 2]. The products with sin are rounded, the others fused.
  void (*rope_half)(float* head, const float* cos, const float* sin, int n);
  void (*rope_interleaved)(float* head, const float* cos, const float* sin, int n);
  // out[i * stride] = half(x[i])
  void (*to_half)(const float* x, int n, int stride, uint16_t* out);
  // Attention, see attention.h.
  void (*segment)(const SegmentTask& task, Softmax* result);  // result: [task.queries], out the caller's memory
  void (*merge)(const Softmax& next, Softmax& into, int head_dim);
  void (*finish)(Softmax& state, int head_dim);
  // out[i] = sigmoid(gate[i]) * x[i]; out may be gate or x.
  void (*sigmoid_times)(const float* gate, const float* x, int n, float* out);
  // sum[i] = fma(weight, x[i], sum[i])
  void (*add_scaled)(float* sum, const float* x, float weight, int n);
  // x[i] *= (1 / sqrt(sum_squares32(x) + 1e-6)) * factor
  void (*l2_norm)(float* x, float factor, int n);
  // The gated delta rule, see delta.h.
  void (*conv_silu)(const float* const* rows, const float* taps, int64_t tap_stride, int kernel, int n, float* out);
  void (*delta_rows)(const DeltaRows& rows, float* state);
  void (*delta_replay)(const DeltaTape& tape, float* state);
};

// The table for "portable", "avx2", "avx512" or "neon"; nullptr when this processor or build lacks it.
const RowKernels* row_kernels(std::string_view isa);

}  // namespace drafthorse::cpu
