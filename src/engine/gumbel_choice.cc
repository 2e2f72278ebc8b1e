#include "engine/gumbel_choice.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/rng.h"

namespace drafthorse {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Noise of d or more needs v <= -ln(1 - v) <= exp(-d), so bits below 2^32 exp(-d). at(d) is such a bound from whole d:
// a loose one, and a comparison of integers rules nearly every token out.
class NoiseBound {
 public:
  NoiseBound() {
    for (size_t d = 0; d < bound_.size(); ++d)
      bound_[d] = static_cast<uint64_t>(0x1p32 * fixed_exp(-static_cast<double>(d))) + 2;
  }
  uint64_t at(double d) const {
    if (!(d > 0)) return bound_[0];
    return bound_[static_cast<size_t>(std::min(d * (1 - 1e-9), kLargestGumbel))];
  }

 private:
  std::array<uint64_t, 23> bound_;
};

struct Winner {
  double score = kNothing;
  int32_t token = -1;

  void consider(float z, int32_t id, uint32_t bits) {
    const double mine = z + gumbel(bits);
    if (mine > score || (mine == score && id < token)) {
      score = mine;
      token = id;
    }
  }
};

}  // namespace

int32_t gumbel_choice(std::span<const float> row, Scale scale, uint64_t seed, uint64_t position) {
  const NoiseBound bound;
  Winner winner;
  for (size_t first = 0; first < row.size(); first += 4) {
    const size_t last = std::min(row.size(), first + 4);
    float top = row[first];
    for (size_t i = first + 1; i < last; ++i) top = row[i] > top ? row[i] : top;
    const float z = scale(top);
    if (z + kLargestGumbel < winner.score || z == -std::numeric_limits<float>::infinity()) continue;
    const auto bits = token_bits(seed, position, static_cast<uint32_t>(first / 4));
    const uint64_t limit = bound.at(winner.score - z);
    if (std::min(std::min(bits[0], bits[1]), std::min(bits[2], bits[3])) >= limit) continue;
    for (size_t i = first; i < last; ++i)
      if (bits[i - first] < limit) winner.consider(scale(row[i]), static_cast<int32_t>(i), bits[i - first]);
  }
  return winner.token;
}

int32_t gumbel_choice(std::span<const Candidate> candidates, uint64_t seed, uint64_t position) {
  const NoiseBound bound;
  Winner winner;
  uint32_t block = std::numeric_limits<uint32_t>::max();  // of the bits at hand: neighbours share one
  std::array<uint32_t, 4> bits{};
  for (const auto& [z, id] : candidates) {
    if (z + kLargestGumbel < winner.score) continue;
    const uint32_t wanted = static_cast<uint32_t>(id) / 4;
    if (wanted != block) bits = token_bits(seed, position, block = wanted);
    const uint32_t mine = bits[static_cast<uint32_t>(id) % 4];
    if (mine < bound.at(winner.score - z)) winner.consider(z, id, mine);
  }
  return winner.token;
}

}  // namespace drafthorse
