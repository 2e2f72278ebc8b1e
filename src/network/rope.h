#pragma once
// Tables of rotary frequencies from a model's settings.

#include <optional>
#include <span>

#include "network/network.h"

namespace drafthorse {

// How a model stretches its rotary frequencies; fields that a kind does not use are ignored.
struct RopeScaling {
  enum class Kind { none, linear, llama3, yarn };
  Kind kind = Kind::none;
  double factor = 1;                                 // linear, llama3, yarn
  double original_context = 0;                       // llama3, yarn: positions before stretching
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn: rotations at which interpolation begins and is complete
  double mscale = 1, mscale_all_dim = 0;             // yarn: sizes of the attention factor
  std::optional<double> attention_factor;            // yarn: given, not computed
  bool truncate = true;                              // yarn: correction dimensions are rounded outwards
};

// The table for the first `dims` elements of a head (dims even; 0: no rope).
// With P_i = base^(2i / dims), inv_freq[i] is
//   none    1 / P_i
//   linear  1 / (factor P_i)
//   llama3  wavelength w = 2 pi P_i: w > N/low: 1 / (factor P_i); w < N/high: 1 / P_i; else a blend linear in N/w
//   yarn    m / P_i + (1 - m) / (factor P_i), m = 1 - clip((i - lo) / (hi - lo), 0, 1),
//           dim(r) = dims ln(N / (2 pi r)) / (2 ln base), lo = floor(dim(beta_fast)), hi = ceil(dim(beta_slow));
//           scale = attention_factor, or with g(a) = 0.1 a ln(factor) + 1: g(mscale) / g(mscale_all_dim)
// where N is original_context. Computed in double, rounded once.
Rope make_rope(int dims, double base, const RopeScaling& scaling, bool interleaved);

// Divides each frequency by its divisor (GGUF rope_freqs.weight). divisors: [dims / 2].
void divide_frequencies(Rope& rope, std::span<const float> divisors);

}  // namespace drafthorse
