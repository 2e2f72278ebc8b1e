#pragma once
// Fixed-width vectors of fp32 for kernels, over the compilers' vector extensions, and the few operations that they
// lack. A kernel written over Lanes<N> gives the bits of the same kernel over float: every operation here is one
// IEEE operation a lane. All functions are always inlined, because one header is compiled for several instruction
// sets and no copy of a function made for one may be linked into another.

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace drafthorse {

#define DRAFTHORSE_LANES_INLINE [[gnu::always_inline]] inline

template <int N>
struct LanesOf {
  typedef float Float __attribute__((vector_size(4 * N)));
  typedef int32_t Int __attribute__((vector_size(4 * N)));
};
template <>
struct LanesOf<1> {
  using Float = float;
  using Int = int32_t;
};
template <int N>
using Lanes = typename LanesOf<N>::Float;

// The integer vector of the same width, for comparisons and bits.
template <class V>
using IntLanes = typename LanesOf<sizeof(V) / 4>::Int;

template <class V>
DRAFTHORSE_LANES_INLINE V broadcast(float x) {
  return x - V{};  // x - 0 is x, also for -0, and folds to a plain broadcast
}
template <>
DRAFTHORSE_LANES_INLINE float broadcast<float>(float x) {
  return x;
}

// a * b + c, rounded once.
template <class V>
DRAFTHORSE_LANES_INLINE V fma(V a, V b, V c) {
  if constexpr (sizeof(V) == 4) {
    return __builtin_fmaf(a, b, c);
#if defined(__FMA__)
  } else if constexpr (sizeof(V) == 16) {
    return (V)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
  } else if constexpr (sizeof(V) == 32) {
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#endif
#if defined(__AVX512F__)
  } else if constexpr (sizeof(V) == 64) {
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#endif
#if defined(__aarch64__)
  } else if constexpr (sizeof(V) == 16) {
    return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
  } else {
    V r;
    for (size_t i = 0; i < sizeof(V) / 4; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
  }
}

// a < b ? x : y in each lane; with a NaN in a or b, y.
template <class V>
DRAFTHORSE_LANES_INLINE V select_less(V a, V b, V x, V y) {
  return a < b ? x : y;
}

template <class V>
DRAFTHORSE_LANES_INLINE IntLanes<V> bits_of(V x) {
  if constexpr (sizeof(V) == 4) {
    return std::bit_cast<int32_t>(x);
  } else {
    return (IntLanes<V>)x;
  }
}
template <class V>
DRAFTHORSE_LANES_INLINE V from_bits(IntLanes<V> x) {
  if constexpr (sizeof(V) == 4) {
    return std::bit_cast<float>(x);
  } else {
    return (V)x;
  }
}

// The larger one; a when either is NaN or they are equal.
template <class V>
DRAFTHORSE_LANES_INLINE V larger(V a, V b) {
  return select_less(a, b, b, a);
}

template <class V>
DRAFTHORSE_LANES_INLINE V load_lanes(const float* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
DRAFTHORSE_LANES_INLINE void store_lanes(float* p, V v) {
  std::memcpy(p, &v, sizeof v);
}

}  // namespace drafthorse
