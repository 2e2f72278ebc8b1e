#pragma once
// What the engine is asked for and what it tells: tokens in, tokens out. No text here.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace drafthorse {

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  float top_p = 1.0f, min_p = 0.0f;
  int top_k = 0;                    // 0: off
  float repetition_penalty = 1.0f;  // over prompt and output, as in the CTRL paper (divide/multiply)
  float presence_penalty = 0.0f, frequency_penalty = 0.0f;  // over the output, as OpenAI defines them
  std::vector<std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;
  bool logprobs = false;  // report the chosen token's log probability
  int top_logprobs = 0;   // and those of the k likeliest
};

// What may draft: whatever pays, nothing, prompt lookup alone, or the model's own multi-token prediction head alone.
inline constexpr std::array<std::string_view, 4> kDraftModes = {"auto", "off", "lookup", "mtp"};
constexpr bool is_draft_mode(std::string_view mode) {
  return std::find(kDraftModes.begin(), kDraftModes.end(), mode) != kDraftModes.end();
}

struct EngineRequest {
  std::vector<int32_t> prompt;  // at least one token
  int max_tokens = 0;           // 0: until the context is full
  SamplingParams sampling;
  std::vector<int32_t> stop_tokens;  // end the answer; reported as the last TokenEvent, never as text
  std::string draft = "auto";        // of kDraftModes
  int max_draft = 0;                 // 0: the policy's choice; tests force 1..16
};

struct TopLogprob {
  int32_t token;
  float logprob;
};
struct TokenEvent {
  int32_t token = 0;
  float logprob = 0;  // of the model's distribution (temperature 1, before filters); if asked
  std::vector<TopLogprob> top;
};

enum class FinishReason { stop, length, cancelled, error };

// steps: verify calls that carried its drafts; parked: calls where it had a proposal that did not pay.
struct DrafterStats {
  int64_t proposed = 0, accepted = 0, steps = 0, parked = 0;
  // By place in the draft: tokens all before which were accepted, and those of them that were accepted too.
  std::vector<int64_t> tried_by_depth, accepted_by_depth;

  // `compared` tokens of a draft were compared with the sequence; the first `accepted` of them agreed.
  void count_depths(int compared, int accepted) {
    const auto tried = static_cast<size_t>(std::min(compared, accepted + 1));
    if (tried > tried_by_depth.size()) {
      tried_by_depth.resize(tried);
      accepted_by_depth.resize(tried);
    }
    for (size_t i = 0; i < tried; ++i) {
      ++tried_by_depth[i];
      if (i < static_cast<size_t>(accepted)) ++accepted_by_depth[i];
    }
  }

  void add(const DrafterStats& other) {
    proposed += other.proposed;
    accepted += other.accepted;
    steps += other.steps;
    parked += other.parked;
    const size_t depths = std::max(tried_by_depth.size(), other.tried_by_depth.size());
    tried_by_depth.resize(depths);
    accepted_by_depth.resize(depths);
    for (size_t i = 0; i < other.tried_by_depth.size(); ++i) {
      tried_by_depth[i] += other.tried_by_depth[i];
      accepted_by_depth[i] += other.accepted_by_depth[i];
    }
  }
};

struct RequestStats {
  int prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  DrafterStats speculation;  // steps: all model calls that produced output tokens
  std::map<std::string, DrafterStats> by_drafter;
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};

// Receives a request's results on the engine thread; must return quickly and must not throw.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // New tokens, in order. Returning false cancels the request (finish follows with FinishReason::stop: the
  // receiver saw what it wanted, e.g. a stop string).
  virtual bool on_tokens(std::span<const TokenEvent> tokens) = 0;
  // Exactly once, last. `error` is set for FinishReason::error.
  virtual void on_finish(FinishReason reason, const RequestStats& stats, const Error* error) = 0;
};

}  // namespace drafthorse
