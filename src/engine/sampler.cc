#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/fixed_double.h"
#include "core/rng.h"

namespace drafthorse {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// A token this far under the largest (scaled logits) adds less than the rounding of a sum.
constexpr float kNegligible = 40.0f;

// What a logit x becomes: (x - largest) / temperature, so at most 0.
struct Scale {
  float largest = 0, inverse_temperature = 1;
  float operator()(float x) const { return (x - largest) * inverse_temperature; }
};

using Candidate = std::pair<float, int32_t>;  // scaled logit, token

// Likelier first; the lower id on ties.
bool before(const Candidate& a, const Candidate& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

// The largest element, or NaN when the row holds NaN or +infinity. One pass, 16 lanes.
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

void keep_best(std::vector<Candidate>& candidates, size_t k) {
  if (candidates.size() <= k) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(k) - 1, candidates.end(), before);
  candidates.resize(k);
}

// The `k` best candidates by before(), unordered, in `out`; one pass with a rising threshold.
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

double weight(float z) { return fixed_exp(static_cast<double>(z)); }

// Sum of the weights of a row: 8 interleaved partial sums, added in order.
double total_weight(std::span<const float> row, Scale scale) {
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += weight(scale(row[i + l]));
  for (; i < row.size(); ++i) lanes[0] += weight(scale(row[i]));
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

// Keeps the shortest likeliest-first prefix whose weight reaches `needed`, unordered. A selection by weight: each
// round puts the candidates before a pivot in front and goes on in the half that holds the border.
void cut_at_weight(std::vector<Candidate>& candidates, double needed) {
  size_t first = 0, last = candidates.size();  // the border lies in [first, last); what is before `first` is kept
  double sum = 0;                              // weight of what is before `first`
  while (last - first > 1) {
    const Candidate pivot = candidates[first + (last - first) / 2];
    // Tokens differ, so each round leaves the pivot itself at the end of the front part.
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(first);
    const auto middle = std::partition(begin, candidates.begin() + static_cast<ptrdiff_t>(last),
                                       [&](const Candidate& c) { return !before(pivot, c); });
    double front = 0;
    for (auto c = begin; c != middle; ++c) front += weight(c->first);
    const size_t split = static_cast<size_t>(middle - candidates.begin());
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
      for (auto c = begin; c != middle - 1; ++c) others += weight(c->first);
      if (sum + others < needed) {
        first = last;
        break;
      }
      --last;
    }
  }
  candidates.resize(std::max<size_t>(last, 1));
}

// Tokens above the highest of a few thresholds over which the weight reaches `needed`.
void select_nucleus(std::span<const float> row, Scale scale, double needed, std::vector<Candidate>& out) {
  for (float depth : {4.0f, 8.0f, 16.0f, kNegligible}) {
    out.clear();
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const float z = scale(row[i]);
      if (z > -depth) {
        out.emplace_back(z, static_cast<int32_t>(i));
        sum += weight(z);
      }
    }
    if (sum >= needed) return;
  }
}

// Tokens of at least min_p times the likeliest one's probability.
void select_above(std::span<const float> row, Scale scale, double lowest, std::vector<Candidate>& out) {
  out.clear();
  for (size_t i = 0; i < row.size(); ++i) {
    const float z = scale(row[i]);
    if (z >= lowest) out.emplace_back(z, static_cast<int32_t>(i));
  }
}

int32_t gumbel_best(const std::vector<Candidate>& candidates, uint64_t seed, uint64_t position) {
  double best = -std::numeric_limits<double>::infinity();
  int32_t token = -1;
  for (const auto& [z, id] : candidates) {
    const auto bits = token_bits(seed, position, static_cast<uint32_t>(id) / 4)[static_cast<uint32_t>(id) % 4];
    const double score = z + gumbel(bits);
    if (score > best || (score == best && id < token)) {
      best = score;
      token = id;
    }
  }
  return token;
}

// The same over a whole row, without noise for tokens that cannot win even with the largest.
int32_t gumbel_best(std::span<const float> row, Scale scale, uint64_t seed, uint64_t position) {
  double best = -std::numeric_limits<double>::infinity();
  int32_t token = -1;
  for (size_t first = 0; first < row.size(); first += 4) {
    const size_t last = std::min(row.size(), first + 4);
    float top = kMinusInfinity;
    for (size_t i = first; i < last; ++i) top = std::max(top, row[i]);
    if (scale(top) + kLargestGumbel < best || top == kMinusInfinity) continue;
    const auto bits = token_bits(seed, position, static_cast<uint32_t>(first / 4));
    for (size_t i = first; i < last; ++i) {
      const float z = scale(row[i]);
      // Noise of d needs v < exp(-d) <= 2^-floor(1.4426 d), as v <= -ln(1 - v): compare the leading zeros first.
      const double needed = best - z;
      if (needed > 1 && std::countl_zero(bits[i - first]) < static_cast<int>(std::min(needed, 40.0) * 1.4426) - 1)
        continue;
      const double score = z + gumbel(bits[i - first]);
      if (score > best) {
        best = score;
        token = static_cast<int32_t>(i);
      }
    }
  }
  return token;
}

// What is left after top_k, top_p and min_p (at least one of which is on).
void select_candidates(std::span<const float> row, Scale scale, const SamplingParams& params,
                       std::vector<Candidate>& candidates) {
  const double lowest = params.min_p > 0 ? fixed_log(params.min_p) : -std::numeric_limits<double>::infinity();
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < row.size()) {
    select_top(row, scale, static_cast<size_t>(params.top_k), candidates);
    if (params.top_p < 1) {
      double total = 0;
      for (const auto& c : candidates) total += weight(c.first);
      cut_at_weight(candidates, total * params.top_p);
    }
  } else if (params.top_p < 1) {
    const double needed = total_weight(row, scale) * params.top_p;
    select_nucleus(row, scale, needed, candidates);
    cut_at_weight(candidates, needed);
  } else {
    select_above(row, scale, lowest, candidates);
  }
  std::erase_if(candidates, [&](const Candidate& c) { return c.first < lowest; });
}

Error not_finite(uint64_t position) {
  return {
      ErrorKind::internal,
      fmt::format("the logits at position {} are not finite; the checkpoint may be damaged, or a penalty or bias is "
                  "out of proportion",
                  position),
      ""};
}

Error in_range(const char* field, const char* range, double found) {
  return {ErrorKind::invalid_argument, fmt::format("{} must be {}, found {}", field, range, found), field};
}

void add_logprobs(std::span<const float> logits, float top, const SamplingParams& params, SamplerScratch& scratch,
                  TokenEvent& event) {
  const Scale scale{top, 1.0f};
  const double log_total = fixed_log(total_weight(logits, scale));
  event.logprob = static_cast<float>(scale(logits[static_cast<size_t>(event.token)]) - log_total);
  if (params.top_logprobs <= 0) return;
  select_top(logits, scale, static_cast<size_t>(params.top_logprobs), scratch.candidates);
  std::sort(scratch.candidates.begin(), scratch.candidates.end(), before);
  for (const auto& [z, id] : scratch.candidates) event.top.push_back({id, static_cast<float>(z - log_total)});
}

}  // namespace

Status validate_sampling(const SamplingParams& p, int vocab) {
  if (!(p.temperature >= 0 && p.temperature <= 100)) return in_range("temperature", "between 0 and 100", p.temperature);
  if (!(p.top_p > 0 && p.top_p <= 1)) return in_range("top_p", "above 0 and at most 1", p.top_p);
  if (!(p.min_p >= 0 && p.min_p <= 1)) return in_range("min_p", "between 0 and 1", p.min_p);
  if (p.top_k < 0) return in_range("top_k", "0 (off) or more", p.top_k);
  if (!(p.repetition_penalty >= 0.01 && p.repetition_penalty <= 100))
    return in_range("repetition_penalty", "between 0.01 and 100", p.repetition_penalty);
  if (!(std::abs(p.presence_penalty) <= 100))
    return in_range("presence_penalty", "between -100 and 100", p.presence_penalty);
  if (!(std::abs(p.frequency_penalty) <= 100))
    return in_range("frequency_penalty", "between -100 and 100", p.frequency_penalty);
  if (p.top_logprobs < 0 || p.top_logprobs > 20) return in_range("top_logprobs", "between 0 and 20", p.top_logprobs);
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab)
      return in_range("logit_bias", fmt::format("given for token ids between 0 and {}", vocab - 1).c_str(), token);
    if (!(std::abs(bias) <= 1000)) return in_range("logit_bias", "between -1000 and 1000", bias);
  }
  return {};
}

bool Sampler::has_penalties() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0;
}

void Sampler::extend_prompt(std::span<const int32_t> tokens) {
  if (params_.repetition_penalty == 1) return;
  for (int32_t token : tokens) counts_[token].in_prompt = true;
}

void Sampler::extend_output(int32_t token) {
  if (has_penalties()) ++counts_[token].in_output;
}

// The row after penalties and bias: the row itself when there are none.
std::span<const float> Sampler::adjusted(std::span<const float> logits, SamplerScratch& scratch) const {
  if (counts_.empty() && params_.logit_bias.empty()) return logits;
  scratch.row.assign(logits.begin(), logits.end());
  for (const auto& [token, count] : counts_) {
    float& x = scratch.row[static_cast<size_t>(token)];
    x = x > 0 ? x / params_.repetition_penalty : x * params_.repetition_penalty;
    if (count.in_output > 0)
      x -= params_.presence_penalty + params_.frequency_penalty * static_cast<float>(count.in_output);
  }
  for (const auto& [token, bias] : params_.logit_bias) scratch.row[static_cast<size_t>(token)] += bias;
  return scratch.row;
}

Result<TokenEvent> Sampler::sample(std::span<const float> logits, uint64_t position, SamplerScratch& scratch) const {
  const float model_top = largest(logits);
  if (!(model_top >= -FLT_MAX)) return not_finite(position);
  const auto row = adjusted(logits, scratch);
  const float top = row.data() == logits.data() ? model_top : largest(row);
  if (!(top >= -FLT_MAX)) return not_finite(position);
  TokenEvent event;
  if (params_.temperature == 0) {
    event.token = static_cast<int32_t>(std::find(row.begin(), row.end(), top) - row.begin());
  } else {
    const Scale scale{top, std::min(1.0f / params_.temperature, FLT_MAX)};
    const bool filtered = params_.top_k > 0 || params_.top_p < 1 || params_.min_p > 0;
    if (filtered) select_candidates(row, scale, params_, scratch.candidates);
    event.token = filtered ? gumbel_best(scratch.candidates, params_.seed, position)
                           : gumbel_best(row, scale, params_.seed, position);
  }
  if (params_.logprobs) add_logprobs(logits, model_top, params_, scratch, event);
  return event;
}

}  // namespace drafthorse
