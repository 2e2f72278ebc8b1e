#pragma once
// One request while it is in the engine.

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "draft/confidence.h"
#include "draft/drafter.h"
#include "draft/mtp.h"
#include "draft/policy.h"
#include "engine/engine.h"
#include "engine/sampler.h"

namespace drafthorse {

using Clock = std::chrono::steady_clock;

// Who made the drafts of a step.
enum class DraftSource { none, drafter, head };

// A head at depths 1, 2, 3-4, …: what it is taken to be worth before it was tried on this request.
inline constexpr Acceptance::Priors kHeadPriors = {0.7, 0.7, 0.7, 0.7, 0.7, 0.7};
inline constexpr int kUnknownConfidence = -1;
inline constexpr double kAnswerLearn = 0.2;  // weight of an answer's length in the mean

// What a request's drafts turned out to be worth.
struct Experience {
  Acceptance drafter;                        // by the drafter's evidence
  Acceptance head{kHeadPriors};              // by depth alone, in class 0: what to expect before the head is run
  Acceptance confidence{kConfidencePriors};  // by the head's confidence, of what it has drafted
  double answer = 256;                       // tokens of an answer, a mean of late
  // Where another request starts from, after an answer of `tokens`.
  Experience next(int tokens) const {
    return {drafter.next(), head.next(), confidence.next(), answer + kAnswerLearn * (tokens - answer)};
  }
};

struct Sequence {
  Sequence(RequestId id_, EngineRequest request_, std::shared_ptr<TokenSink> sink_)
      : id(id_), request(std::move(request_)), sink(std::move(sink_)), sampler(request.sampling) {}

  const RequestId id;
  const EngineRequest request;
  const std::shared_ptr<TokenSink> sink;
  std::atomic<bool> cancelled{false};  // the only member that other threads touch

  // Prompt and output. The state holds a beginning of it; what is beyond must be run. In decode that is one token.
  std::vector<int32_t> tokens;
  std::unique_ptr<State> state;  // null while queued
  Sampler sampler;
  std::unique_ptr<Drafter> drafter;  // null: none
  Shadow shadow;
  std::unique_ptr<MtpHistory> head;  // null: no drafting head
  Experience experience;
  Retry head_retry;
  std::array<Balance, kEvidenceClasses> drafter_balance;  // by evidence
  Balance head_balance;
  RequestStats stats;
  Clock::time_point submitted = Clock::now(), admitted, first_token;
  int reserved = 0;           // positions that the state has memory for
  bool was_admitted = false;  // a sequence that had to give its memory back is admitted again later

  // Of the step being made.
  std::vector<int32_t> draft;  // what the drafter proposed, then what is verified
  int evidence = 0;
  DraftSource source = DraftSource::none;
  int head_depth = 0;                    // most tokens that the head is to draft
  std::vector<int32_t> rows;             // the tokens that the step runs
  int decode_rows = 1, rows_beside = 1;  // of the step: rows that bring a token, rows that are not this one's drafts

  // What the head drafted in this step, verified or not: tokens, classes of confidence (or kUnknownConfidence), and how
  // likely each was thought to be accepted.
  std::vector<int32_t> head_draft;
  std::vector<int> head_confidence;
  std::vector<double> head_known;

  int pending() const { return static_cast<int>(tokens.size()) - state->length(); }
  // Output tokens that the request may still have.
  int room(int context) const {
    int left = context - static_cast<int>(tokens.size());
    if (request.max_tokens > 0) left = std::min(left, request.max_tokens - stats.completion_tokens);
    return left;
  }
};

}  // namespace drafthorse
