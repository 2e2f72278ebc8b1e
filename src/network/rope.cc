#include "network/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace drafthorse {
namespace {

constexpr double kTau = 2 * std::numbers::pi;

double llama3_frequency(double period, const RopeScaling& s) {
  const double wavelength = kTau * period;
  if (wavelength > s.original_context / s.low_freq_factor) return 1 / (s.factor * period);
  if (wavelength < s.original_context / s.high_freq_factor) return 1 / period;
  const double smooth =
      (s.original_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return ((1 - smooth) / s.factor + smooth) / period;
}

struct Range {
  double low, high;
};

// The pairs between which yarn goes from the original frequency to the interpolated one.
Range yarn_range(int dims, double base, const RopeScaling& s) {
  const auto dimension = [&](double rotations) {
    return dims * std::log(s.original_context / (rotations * kTau)) / (2 * std::log(base));
  };
  double low = dimension(s.beta_fast), high = dimension(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1.0);
  if (low == high) high += 0.001;
  return {low, high};
}

double yarn_attention_factor(const RopeScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  const auto size = [&](double scale) { return s.factor <= 1 ? 1.0 : 0.1 * scale * std::log(s.factor) + 1; };
  if (s.mscale == 0 || s.mscale_all_dim == 0) return size(1);
  return size(s.mscale) / size(s.mscale_all_dim);
}

}  // namespace

Rope make_rope(int dims, double base, const RopeScaling& scaling, bool interleaved) {
  Rope rope;
  rope.dims = dims;
  rope.interleaved = interleaved;
  const bool yarn = scaling.kind == RopeScaling::Kind::yarn;
  const Range range = yarn && dims > 0 ? yarn_range(dims, base, scaling) : Range{0, 1};
  for (int i = 0; i < dims / 2; ++i) {
    const double period = std::pow(base, 2.0 * i / dims);
    double frequency = 1 / period;
    if (scaling.kind == RopeScaling::Kind::linear) frequency = 1 / (scaling.factor * period);
    if (scaling.kind == RopeScaling::Kind::llama3) frequency = llama3_frequency(period, scaling);
    if (yarn) {
      const double keep = 1 - std::clamp((i - range.low) / (range.high - range.low), 0.0, 1.0);
      frequency = keep / period + (1 - keep) / (scaling.factor * period);
    }
    rope.inv_freq.push_back(static_cast<float>(frequency));
  }
  if (yarn) rope.scale = static_cast<float>(yarn_attention_factor(scaling));
  return rope;
}

void divide_frequencies(Rope& rope, std::span<const float> divisors) {
  for (size_t i = 0; i < rope.inv_freq.size() && i < divisors.size(); ++i) rope.inv_freq[i] /= divisors[i];
}

}  // namespace drafthorse
