#pragma once
// Counts and times of an answer, summed over its choices.

#include <string>
#include <vector>

#include "api/request.h"
#include "completion/completion.h"

namespace drafthorse {

class UsageTotals {
 public:
  explicit UsageTotals(int n) : n_(n) {}  // choices / n prompts: a prompt is counted once
  void add(int choice, const Usage& usage);
  // {"prompt_tokens":…,"completion_tokens":…,"total_tokens":…,"prompt_tokens_details":{"cached_tokens":…},
  //  "completion_tokens_details":{"reasoning_tokens":…,"accepted_prediction_tokens":…,"rejected_prediction_tokens":…}}
  std::string usage_json() const;
  // Milliseconds and rates are those of the slowest choice, counts are sums; see docs/api.md, "timings".
  std::string timings_json() const;
  const RequestStats& total() const { return total_; }

 private:
  int n_;
  RequestStats total_;
  int processed_prompt_tokens_ = 0, reasoning_tokens_ = 0;
  double first_token_seconds_ = 0, total_seconds_ = 0, predicted_per_second_ = 0, prompt_per_second_ = 0;
  uint64_t seed_ = 0;
};

// Tokens per second of the decode phase: the first token comes from the prompt's pass and is not counted.
double decode_rate(const RequestStats& stats);

}  // namespace drafthorse
