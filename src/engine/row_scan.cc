#include "engine/row_scan.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "core/lanes.h"

namespace drafthorse {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kLeastWeighed = -80.0f;  // weights of scaled logits below it are 0

// z = -n ln 2 + r; n is the bucket, e^r a polynomial.
template <class V>
struct Weighed {
  V weight;
  IntLanes<V> bucket;
};
template <class V>
DRAFTHORSE_LANES_INLINE Weighed<V> weigh(V z) {
  const V low = broadcast<V>(kLeastWeighed), magic = broadcast<V>(12582912.0f);  // 1.5 * 2^23 rounds to an integer
  const V x = select_less(z, low, low, z);
  const V shifted = x * broadcast<V>(1.44269504f) + magic;
  const V n = shifted - magic;
  V r = x - n * broadcast<V>(0.693359375f);  // ln 2 in two parts, of which the first times n is exact
  r = r + n * broadcast<V>(2.12194440e-4f);
  V p = broadcast<V>(1.9875691500e-4f);
  p = p * r + broadcast<V>(1.3981999507e-3f);
  p = p * r + broadcast<V>(8.3334519073e-3f);
  p = p * r + broadcast<V>(4.1665795894e-2f);
  p = p * r + broadcast<V>(1.6666665459e-1f);
  p = p * r + broadcast<V>(5.0000001201e-1f);
  const V e = p * (r * r) + r + broadcast<V>(1.0f);
  const IntLanes<V> exponent = bits_of(shifted) - bits_of(magic);
  const V weight = e * from_bits<V>((exponent + 127) << 23);
  return {select_less(z, low, broadcast<V>(0.0f), weight), 0 - exponent};
}

int bucket_of(float z) { return weigh<float>(z).bucket; }

void keep_best(std::vector<Candidate>& candidates, size_t k) {
  if (candidates.size() <= k) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(k) - 1, candidates.end(), likelier);
  candidates.resize(k);
}

// Calls visit(i) for the elements of at least `least`, in order: 16 at a time are passed over where none is.
template <class Visit>
void each_at_least(std::span<const float> row, float least, Visit visit) {
  constexpr size_t kLanes = 16;
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    float top[4] = {row[i], row[i + 1], row[i + 2], row[i + 3]};
    for (size_t l = 4; l < kLanes; ++l) top[l % 4] = row[i + l] > top[l % 4] ? row[i + l] : top[l % 4];
    if (std::max({top[0], top[1], top[2], top[3]}) < least) continue;
    for (size_t l = i; l < i + kLanes; ++l)
      if (row[l] >= least) visit(l);
  }
  for (; i < row.size(); ++i)
    if (row[i] >= least) visit(i);
}

// A logit below which no scaled one reaches `lowest`, however the scaling rounds.
float least_logit(Scale scale, double lowest) {
  const double exact = static_cast<double>(scale.largest) + lowest / static_cast<double>(scale.inverse_temperature);
  const double slack = 1e-5 * (std::abs(exact) + std::abs(static_cast<double>(scale.largest))) + 1e-30;
  return exact - slack < -FLT_MAX ? kMinusInfinity : static_cast<float>(exact - slack);
}

}  // namespace

float largest(std::span<const float> row) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  uint32_t bad[kLanes] = {};
  std::fill(std::begin(lanes), std::end(lanes), kMinusInfinity);
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const float x = row[i + l];
      lanes[l] = x > lanes[l] ? x : lanes[l];
      bad[l] |= x <= FLT_MAX ? 0u : 1u;
    }
  }
  for (; i < row.size(); ++i) {
    lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
    bad[0] |= row[i] <= FLT_MAX ? 0u : 1u;
  }
  float top = kMinusInfinity;
  uint32_t any_bad = 0;
  for (size_t l = 0; l < kLanes; ++l) {
    top = std::max(top, lanes[l]);
    any_bad |= bad[l];
  }
  return any_bad ? std::numeric_limits<float>::quiet_NaN() : top;
}

double token_weight(float z) { return static_cast<double>(weigh<float>(z).weight); }

RowWeights row_weights(std::span<const float> row, Scale scale) {
  using V = Lanes<4>;
  constexpr size_t kLanes = 4, kChunk = 256;
  // One set of sums a lane, so that neighbours of one bucket do not wait for each other.
  double sums[kLanes][kWeightBuckets] = {};
  float weights[kChunk];
  int32_t buckets[kChunk];
  const V top = broadcast<V>(scale.largest), factor = broadcast<V>(scale.inverse_temperature);
  for (size_t first = 0; first < row.size(); first += kChunk) {
    const size_t count = std::min(kChunk, row.size() - first), whole = count / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      const auto w = weigh<V>((load_lanes<V>(&row[first + i]) - top) * factor);
      store_lanes(weights + i, w.weight);
      std::memcpy(buckets + i, &w.bucket, sizeof w.bucket);
    }
    for (size_t i = whole; i < count; ++i) {
      const auto w = weigh<float>(scale(row[first + i]));
      weights[i] = w.weight;
      buckets[i] = w.bucket;
    }
    for (size_t i = 0; i < count; ++i)
      sums[i % kLanes][static_cast<size_t>(buckets[i])] += static_cast<double>(weights[i]);
  }
  RowWeights out;
  for (size_t b = 0; b < kWeightBuckets; ++b)
    out.above[b + 1] = out.above[b] + ((sums[0][b] + sums[1][b]) + (sums[2][b] + sums[3][b]));
  return out;
}

void select_top(std::span<const float> row, Scale scale, size_t k, std::vector<Candidate>& out) {
  out.clear();
  const size_t limit = 4 * k + 64;
  float threshold = kMinusInfinity;
  for (size_t i = 0; i < row.size(); ++i) {
    // Ids rise, so an element equal to the threshold loses to those already there.
    if (!(row[i] > threshold)) continue;
    out.emplace_back(row[i], static_cast<int32_t>(i));
    if (out.size() == limit) {
      keep_best(out, k);
      threshold = out.back().first;
    }
  }
  keep_best(out, k);
  for (auto& c : out) c.first = scale(c.first);
}

void select_above(std::span<const float> row, Scale scale, double lowest, std::vector<Candidate>& out) {
  out.clear();
  each_at_least(row, least_logit(scale, lowest), [&](size_t i) {
    const float z = scale(row[i]);
    if (z >= lowest) out.emplace_back(z, static_cast<int32_t>(i));
  });
}

void cut_at_weight(std::vector<Candidate>& candidates, double needed) {
  // A selection by weight: each round puts the candidates before a pivot in front and goes on in the half that holds
  // the border.
  size_t first = 0, last = candidates.size();  // the border lies in [first, last); what is before `first` is kept
  double sum = 0;                              // weight of what is before `first`
  while (last - first > 1) {
    const Candidate pivot = candidates[first + (last - first) / 2];
    // Tokens differ, so each round leaves the pivot itself at the end of the front part.
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(first);
    const auto middle = std::partition(begin, candidates.begin() + static_cast<ptrdiff_t>(last),
                                       [&](const Candidate& c) { return !likelier(pivot, c); });
    double front = 0;
    for (auto c = begin; c != middle; ++c) front += token_weight(c->first);
    const auto split = static_cast<size_t>(middle - candidates.begin());
    if (sum + front < needed) {
      sum += front;
      first = split;
    } else if (split < last) {
      last = split;
    } else {
      // The pivot was the last of its range: take it off when the others suffice.
      const auto at = std::find(begin, middle, pivot);
      std::iter_swap(at, middle - 1);
      double others = 0;
      for (auto c = begin; c != middle - 1; ++c) others += token_weight(c->first);
      if (sum + others < needed) {
        first = last;
        break;
      }
      --last;
    }
  }
  candidates.resize(std::min(candidates.size(), std::max<size_t>(last, 1)));
}

void select_nucleus(std::span<const float> row, Scale scale, double top_p, std::vector<Candidate>& out,
                    std::vector<Candidate>& of_border) {
  const RowWeights weights = row_weights(row, scale);
  const double needed = weights.total() * top_p;
  // All buckets before the border are in whole; of the border's own tokens the likeliest are.
  int border = 0;
  while (border + 1 < kWeightBuckets && weights.above[static_cast<size_t>(border) + 1] < needed) ++border;
  constexpr double kLn2 = 0.6931471805599453;
  const auto surely_in = static_cast<float>(-(border - 0.51) * kLn2);
  out.clear();
  of_border.clear();
  each_at_least(row, least_logit(scale, -(border + 0.51) * kLn2), [&](size_t i) {
    const float z = scale(row[i]);
    const int bucket = z > surely_in ? border - 1 : bucket_of(z);
    if (bucket < border) out.emplace_back(z, static_cast<int32_t>(i));
    if (bucket == border) of_border.emplace_back(z, static_cast<int32_t>(i));
  });
  cut_at_weight(of_border, needed - weights.above[static_cast<size_t>(border)]);
  out.insert(out.end(), of_border.begin(), of_border.end());
}

}  // namespace drafthorse
