#pragma once
// Templates of the attention kernels over an instruction set (see row_kernels_impl.h for Isa).

#include <algorithm>

#include "backend/cpu/attention.h"
#include "backend/cpu/delta_impl.h"
#include "backend/cpu/row_kernels_impl.h"

namespace drafthorse::cpu {

template <class Isa>
struct AttentionOf {
  static constexpr int W = Isa::width;
  using V = Lanes<W>;
  static constexpr int kMaxTile = 6;
  // Registers a query for a tile of R queries: enough independent sums to hide the latency of fma, few enough to
  // keep all in 16 registers.
  template <int R>
  static constexpr int registers() {
    return R == 1 ? 8 : R == 2 ? 4 : 2;
  }

  // scores[r * kSoftmaxSegment + j] = q[r] . key[j] for the 64 positions of one block. `next` and `values`: the keys
  // and values that are wanted after this block, brought into the cache meanwhile.
  template <int R>
  static void scores(const float* const* q, const uint16_t* keys, const uint16_t* next, const uint16_t* values,
                     int head_dim, float* out) {
    constexpr int C = std::min(registers<R>(), kKvBlock / W);
    constexpr int kPasses = kKvBlock / (C * W);
    constexpr int kLines = kPasses >= 4 ? 1 : 4 / kPasses;  // cache lines to ask for with each d: four times head_dim
    constexpr int kLine = 64 / int(sizeof(uint16_t));
    for (int j = 0, pass = 0; j < kKvBlock; j += C * W, ++pass) {
      const int first_line = std::min(pass, 3) * kLines * head_dim;
      const uint16_t* line =
          first_line < 2 * head_dim ? next + first_line * kLine : values + (first_line - 2 * head_dim) * kLine;
      V sum[R][C];
      for (auto& row : sum) {
        for (V& s : row) s = broadcast<V>(0.0f);
      }
      const uint16_t* k = keys + j;
      for (int d = 0; d < head_dim; ++d, k += kKvBlock) {
        if (kPasses == 1 && d == head_dim / 2) line = values;
        if (pass < 4) {
          for (int i = 0; i < kLines; ++i, line += kLine) __builtin_prefetch(line);
        }
        V key[C];
        for (int c = 0; c < C; ++c) key[c] = Isa::load_half(k + c * W);
        for (int r = 0; r < R; ++r) {
          const V x = broadcast<V>(q[r][d]);
          for (int c = 0; c < C; ++c) sum[r][c] = fma(x, key[c], sum[r][c]);
        }
      }
      for (int r = 0; r < R; ++r) {
        for (int c = 0; c < C; ++c) store_lanes(out + r * kSoftmaxSegment + j + c * W, sum[r][c]);
      }
    }
  }

  // out[r][d] += sum over positions [first, last) of the block, in order, of p[r][j] * value[j][d].
  template <int R>
  static void weigh(const float* p, const uint16_t* values, int first, int last, int head_dim, float* const* out) {
    constexpr int C = registers<R>();
    int d = 0;
    for (; d + C * W <= head_dim; d += C * W) weigh_columns<R, C>(p, values, first, last, head_dim, d, out);
    for (; d + W <= head_dim; d += W) weigh_columns<R, 1>(p, values, first, last, head_dim, d, out);
    for (; d < head_dim; ++d) {
      for (int r = 0; r < R; ++r) {
        float sum = out[r][d];
        for (int j = first; j < last; ++j) {
          sum = fma(p[r * kSoftmaxSegment + j], half_to_float(values[size_t(j) * head_dim + d]), sum);
        }
        out[r][d] = sum;
      }
    }
  }

  template <int R, int C>
  [[gnu::always_inline]] static inline void weigh_columns(const float* p, const uint16_t* values, int first, int last,
                                                          int head_dim, int d, float* const* out) {
    V sum[R][C];
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) sum[r][c] = load_lanes<V>(out[r] + d + c * W);
    }
    const uint16_t* v = values + size_t(first) * head_dim + d;
    for (int j = first; j < last; ++j, v += head_dim) {
      V value[C];
      for (int c = 0; c < C; ++c) value[c] = Isa::load_half(v + c * W);
      for (int r = 0; r < R; ++r) {
        const V x = broadcast<V>(p[r * kSoftmaxSegment + j]);
        for (int c = 0; c < C; ++c) sum[r][c] = fma(x, value[c], sum[r][c]);
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) store_lanes(out[r] + d + c * W, sum[r][c]);
    }
  }

  // Turns the scores of one query into weights in place: exp(score - max) where seen, 0 elsewhere.
  static void softmax(float* s, int first, int last, float softcap, Softmax& result) {
    if (softcap > 0) Rows<Isa>::softcap(s + first, softcap, last - first);
    const int begin = first / W * W, end = (last + W - 1) / W * W;
    std::fill(s + begin, s + first, -INFINITY);
    std::fill(s + last, s + end, -INFINITY);
    V most_lanes = broadcast<V>(-INFINITY);  // the order does not matter to a maximum; a NaN is passed over
    for (int j = begin; j < end; j += W) most_lanes = larger(most_lanes, load_lanes<V>(s + j));
    float lanes[W];
    store_lanes(lanes, most_lanes);
    float most = lanes[0];
    for (int i = 1; i < W; ++i) most = larger(most, lanes[i]);
    const V shift = broadcast<V>(most);
    std::fill(s, s + begin, 0.0f);
    for (int j = begin; j < end; j += W) store_lanes(s + j, exp_fixed(load_lanes<V>(s + j) - shift));
    std::fill(s + end, s + kSoftmaxSegment, 0.0f);
    result.max = most;
    result.sum = sum_halves(s);
  }

  static float sum_halves(const float* p) {
    constexpr int n = kSoftmaxSegment / 2 / W;
    V sums[n];
    for (int i = 0; i < n; ++i) sums[i] = load_lanes<V>(p + i * W) + load_lanes<V>(p + kSoftmaxSegment / 2 + i * W);
    for (int half = n / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
    }
    float lanes[W];
    store_lanes(lanes, sums[0]);
    for (int half = W / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
    }
    return lanes[0];
  }

  // R queries from index `base` of the task.
  template <int R>
  static void tile(const SegmentTask& task, Softmax* result, int base) {
    alignas(64) float p[R * kSoftmaxSegment];
    const int* first = task.first + base;
    const int* last = task.last + base;
    int from = first[0], to = last[0], shared_from = first[0], shared_to = last[0];
    float* out[R];
    for (int r = 0; r < R; ++r) {
      from = std::min(from, first[r]), to = std::max(to, last[r]);
      shared_from = std::max(shared_from, first[r]), shared_to = std::min(shared_to, last[r]);
      out[r] = result[base + r].out;
      std::fill(out[r], out[r] + task.head_dim, 0.0f);
    }
    for (int b = from / kKvBlock; b * kKvBlock < to; ++b) {
      const uint16_t* next = (b + 1) * kKvBlock < to ? task.keys[b + 1] : task.after ? task.after : task.values[b];
      scores<R>(task.q + base, task.keys[b], next, task.values[b], task.head_dim, p + b * kKvBlock);
    }
    for (int r = 0; r < R; ++r) softmax(p + r * kSoftmaxSegment, first[r], last[r], task.softcap, result[base + r]);
    // Positions that all see go together; the few before and after go query by query, still in order.
    shared_from = std::min(shared_from, to);
    shared_to = std::max(shared_to, shared_from);
    for (int r = 0; r < R; ++r)
      weigh_range<1>(task, p + r * kSoftmaxSegment, first[r], std::min(last[r], shared_from), out + r);
    weigh_range<R>(task, p, shared_from, shared_to, out);
    for (int r = 0; r < R; ++r)
      weigh_range<1>(task, p + r * kSoftmaxSegment, std::max(first[r], shared_to), last[r], out + r);
  }

  template <int R>
  static void weigh_range(const SegmentTask& task, const float* p, int first, int last, float* const* out) {
    for (int b = first / kKvBlock; b * kKvBlock < last; ++b) {
      const int start = b * kKvBlock;
      const int begin = std::max(first, start) - start, end = std::min(last - start, kKvBlock);
      if (begin < end) weigh<R>(p + start, task.values[b], begin, end, task.head_dim, out);
    }
  }

  static void segment(const SegmentTask& task, Softmax* result) {
    // Nearly equal tiles of at most kMaxTile queries.
    const int tiles = (task.queries + kMaxTile - 1) / kMaxTile;
    for (int t = 0; t < tiles; ++t) {
      const int begin = task.queries * t / tiles, count = task.queries * (t + 1) / tiles - begin;
      switch (count) {
        case 1: tile<1>(task, result, begin); break;
        case 2: tile<2>(task, result, begin); break;
        case 3: tile<3>(task, result, begin); break;
        case 4: tile<4>(task, result, begin); break;
        case 5: tile<5>(task, result, begin); break;
        default: tile<6>(task, result, begin); break;
      }
    }
  }

  static void merge(const Softmax& next, Softmax& into, int head_dim) {
    const float most = larger(into.max, next.max);
    const float a = exp_fixed(into.max - most), b = exp_fixed(next.max - most);
    into.max = most;
    into.sum = fma(into.sum, a, next.sum * b);
    float* out = into.out;
    const float* more = next.out;
    Rows<Isa>::each(head_dim, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(out + i, fma(load_lanes<T>(out + i), broadcast<T>(a), load_lanes<T>(more + i) * broadcast<T>(b)));
    });
  }

  static void finish(Softmax& state, int head_dim) {
    float* out = state.out;
    const float sum = state.sum;
    Rows<Isa>::each(head_dim, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(out + i, load_lanes<T>(out + i) / broadcast<T>(sum));
    });
  }
};

// The whole table for one instruction set.
template <class Isa>
constexpr RowKernels table(std::string_view name) {
  using R = Rows<Isa>;
  using A = AttentionOf<Isa>;
  using D = DeltaOf<Isa>;
  return {name,         &R::rms_norm,  &R::silu_times, &R::gelu_times,       &R::add,
          &R::multiply, &R::softcap,   &R::rope_half,  &R::rope_interleaved, &R::to_half,
          &A::segment,  &A::merge,     &A::finish,     &R::sigmoid_times,    &R::add_scaled,
          &R::l2_norm,  &D::conv_silu, &D::delta_rows, &D::delta_replay};
}

}  // namespace drafthorse::cpu
