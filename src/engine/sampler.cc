#include "engine/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/fixed_double.h"
#include "engine/gumbel_choice.h"
#include "engine/row_scan.h"

namespace drafthorse {
namespace {

// What is left after top_k, top_p and min_p (at least one of which is on).
void select_candidates(std::span<const float> row, Scale scale, const SamplingParams& params, SamplerScratch& scratch) {
  auto& candidates = scratch.candidates;
  const double lowest = params.min_p > 0 ? fixed_log(params.min_p) : -std::numeric_limits<double>::infinity();
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < row.size()) {
    select_top(row, scale, static_cast<size_t>(params.top_k), candidates);
    if (params.top_p < 1) {
      double total = 0;
      for (const auto& c : candidates) total += token_weight(c.first);
      cut_at_weight(candidates, total * params.top_p);
    }
  } else if (params.top_p < 1) {
    select_nucleus(row, scale, params.top_p, candidates, scratch.more_candidates);
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
  const double log_total = fixed_log(row_weights(logits, scale).total());
  event.logprob = static_cast<float>(scale(logits[static_cast<size_t>(event.token)]) - log_total);
  if (params.top_logprobs <= 0) return;
  select_top(logits, scale, static_cast<size_t>(params.top_logprobs), scratch.candidates);
  std::sort(scratch.candidates.begin(), scratch.candidates.end(), likelier);
  for (const auto& [z, id] : scratch.candidates) event.top.push_back({id, static_cast<float>(z - log_total)});
}

}  // namespace

Status validate_sampling(const SamplingParams& p, int vocab) {
  if (!(p.temperature >= 0 && p.temperature <= 100)) return in_range("temperature", "between 0 and 100", p.temperature);
  if (!(p.top_p >= 0 && p.top_p <= 1)) return in_range("top_p", "between 0 and 1", p.top_p);
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
    if (static_cast<size_t>(token) >= scratch.row.size()) continue;
    float& x = scratch.row[static_cast<size_t>(token)];
    x = x > 0 ? x / params_.repetition_penalty : x * params_.repetition_penalty;
    if (count.in_output > 0)
      x -= params_.presence_penalty + params_.frequency_penalty * static_cast<float>(count.in_output);
  }
  for (const auto& [token, bias] : params_.logit_bias)
    if (static_cast<size_t>(token) < scratch.row.size()) scratch.row[static_cast<size_t>(token)] += bias;
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
    if (filtered) select_candidates(row, scale, params_, scratch);
    event.token = filtered ? gumbel_choice(scratch.candidates, params_.seed, position)
                           : gumbel_choice(row, scale, params_.seed, position);
  }
  if (params_.logprobs) add_logprobs(logits, model_top, params_, scratch, event);
  return event;
}

}  // namespace drafthorse
