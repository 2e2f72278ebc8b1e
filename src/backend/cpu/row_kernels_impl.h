#pragma once
// Templates of RowKernels over an instruction set. Isa gives `width`, load_half and store_half; it is a type of an
// anonymous namespace in each file that includes this one, so that every instance stays in that file.

#include <cmath>
#include <cstring>

#include "backend/cpu/row_kernels.h"
#include "core/half.h"
#include "core/math.h"

namespace drafthorse::cpu {

template <class Isa>
struct Rows {
  static constexpr int W = Isa::width;
  using V = Lanes<W>;

  static float sum_squares(const float* x, int n) {
    V partial[kPartials / W];
    for (V& p : partial) p = broadcast<V>(0.0f);
    int i = 0;
    for (; i + kPartials <= n; i += kPartials) {
      for (int j = 0; j < kPartials / W; ++j) {
        const V v = load_lanes<V>(x + i + j * W);
        partial[j] = fma(v, v, partial[j]);
      }
    }
    float lanes[kPartials];
    for (int j = 0; j < kPartials / W; ++j) store_lanes(lanes + j * W, partial[j]);
    for (; i < n; ++i) lanes[i % kPartials] = __builtin_fmaf(x[i], x[i], lanes[i % kPartials]);
    return merge32(lanes);
  }

  // out(i) = f(i, vector type) for all i: vectors, then a scalar tail with the same operations.
  template <class F>
  [[gnu::always_inline]] static inline void each(int n, F f) {
    int i = 0;
    for (; i + W <= n; i += W) f(i, V{});
    for (; i < n; ++i) f(i, float{});
  }

  static void rms_norm(const float* x, const float* weight, float eps, int n, float* y) {
    const float r = 1.0f / std::sqrt(sum_squares(x, n) / float(n) + eps);
    each(n, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(y + i, (load_lanes<T>(x + i) * broadcast<T>(r)) * load_lanes<T>(weight + i));
    });
  }

  static void silu_times(float* gate, const float* up, int n) {
    each(n, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(gate + i, silu_fixed(load_lanes<T>(gate + i)) * load_lanes<T>(up + i));
    });
  }

  static void gelu_times(float* gate, const float* up, int n) {
    each(n, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(gate + i, gelu_tanh_fixed(load_lanes<T>(gate + i)) * load_lanes<T>(up + i));
    });
  }

  static void add(float* x, const float* y, int n) {
    each(n, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(x + i, load_lanes<T>(x + i) + load_lanes<T>(y + i));
    });
  }

  static void multiply(float* x, float factor, int n) {
    each(n, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(x + i, load_lanes<T>(x + i) * broadcast<T>(factor));
    });
  }

  static void softcap(float* x, float cap, int n) {
    each(n, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(x + i, broadcast<T>(cap) * tanh_fixed(load_lanes<T>(x + i) / broadcast<T>(cap)));
    });
  }

  static void rope_half(float* head, const float* cos, const float* sin, int n) {
    float* other = head + n / 2;
    each(n / 2, [=](int i, auto v) {
      using T = decltype(v);
      const T a = load_lanes<T>(head + i), b = load_lanes<T>(other + i);
      const T c = load_lanes<T>(cos + i), s = load_lanes<T>(sin + i);
      store_lanes(head + i, fma(a, c, -(b * s)));
      store_lanes(other + i, fma(b, c, a * s));
    });
  }

  static void rope_interleaved(float* head, const float* cos, const float* sin, int n) {
    for (int i = 0; i < n / 2; ++i) {
      const float a = head[2 * i], b = head[2 * i + 1];
      head[2 * i] = fma(a, cos[i], -(b * sin[i]));
      head[2 * i + 1] = fma(b, cos[i], a * sin[i]);
    }
  }

  static void sigmoid_times(const float* gate, const float* x, int n, float* out) {
    each(n, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(out + i, sigmoid_fixed(load_lanes<T>(gate + i)) * load_lanes<T>(x + i));
    });
  }

  static void add_scaled(float* sum, const float* x, float weight, int n) {
    each(n, [=](int i, auto v) {
      using T = decltype(v);
      store_lanes(sum + i, fma(broadcast<T>(weight), load_lanes<T>(x + i), load_lanes<T>(sum + i)));
    });
  }

  static void l2_norm(float* x, float factor, int n) {
    multiply(x, (1.0f / std::sqrt(sum_squares(x, n) + 1e-6f)) * factor, n);
  }

  static void to_half(const float* x, int n, int stride, uint16_t* out) {
    int i = 0;
    for (; i + W <= n; i += W) {
      uint16_t half[W];
      Isa::store_half(half, load_lanes<V>(x + i));
      if (stride == 1) {
        std::memcpy(out + i, half, sizeof half);
      } else {
        for (int j = 0; j < W; ++j) out[size_t(i + j) * stride] = half[j];
      }
    }
    for (; i < n; ++i) out[size_t(i) * stride] = float_to_half(x[i]);
  }
};

}  // namespace drafthorse::cpu
