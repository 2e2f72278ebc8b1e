#pragma once
// From a row of logits to a token, as a pure function: the same row, history, parameters, seed and position give the
// same token, whoever computed the row and whatever else was in the batch.
//
// Order, as in the field: repetition, presence and frequency penalties; logit_bias; temperature; top_k; top_p; min_p;
// then the largest logit + Gumbel noise keyed by (seed, position, token) among what is left, lowest id on ties. The
// likeliest token is always left, also with top_p 0.
// Temperature 0: the largest logit after penalties and bias, lowest id on ties. Log probabilities are those of the
// model's own distribution, before all of this.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "engine/request.h"

namespace drafthorse {

// Error: invalid_argument with the field at fault and the range it may have.
Status validate_sampling(const SamplingParams& params, int vocab);

// Buffers that samplers share between calls, so that a step allocates nothing.
struct SamplerScratch {
  std::vector<float> row;
  std::vector<std::pair<float, int32_t>> candidates, more_candidates;
};

class Sampler {
 public:
  explicit Sampler(SamplingParams params) : params_(std::move(params)) {}

  // Tells the penalties that the sequence grew. Prompt tokens count for the repetition penalty only.
  void extend_prompt(std::span<const int32_t> tokens);
  void extend_output(int32_t token);

  // logits: [vocab]. position: the index that the token will have in its sequence.
  // Error: internal when the row holds NaN or +infinity, or nothing but -infinity.
  Result<TokenEvent> sample(std::span<const float> logits, uint64_t position, SamplerScratch& scratch) const;

  const SamplingParams& params() const { return params_; }

 private:
  struct Count {
    bool in_prompt = false;
    int in_output = 0;
  };

  bool has_penalties() const;
  std::span<const float> adjusted(std::span<const float> logits, SamplerScratch& scratch) const;

  SamplingParams params_;
  std::unordered_map<int32_t, Count> counts_;  // kept only when a penalty needs it
};

}  // namespace drafthorse
