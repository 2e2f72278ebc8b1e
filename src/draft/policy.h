#pragma once
// How many drafted tokens to verify: as many as pay for themselves by measured acceptance and measured row cost.
// Law 1 makes every answer safe: it can change the speed only.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "draft/drafter.h"

namespace drafthorse {

inline constexpr int kMostDraft = 16;  // drafted tokens that one step verifies for one sequence

// Estimates, for one request and one drafter, how likely a drafted token is accepted given that those before it were.
// One estimate for every evidence class and range of depths (1, 2, 3-4, 5-8, 9-16); older observations fade.
class Acceptance {
 public:
  // What each evidence class is taken to be worth before anything was seen.
  using Priors = std::array<double, kEvidenceClasses>;
  Acceptance();  // those of prompt lookup
  explicit Acceptance(const Priors& priors);

  // The drafted token at `depth` (1..kMostDraft), reached because those before it agreed, did so or did not.
  void observe_at(int evidence, int depth, bool agreed);
  // `proposed` tokens were compared with the sequence; the first `accepted` of them agreed.
  void observe(int evidence, int proposed, int accepted);
  // P(depth d is accepted | those before were), d = 1..kMostDraft.
  double conditional(int evidence, int depth) const;
  // Where another request starts from: what this one has seen, nothing of it certain. Below the priors that this one
  // started from only half as far, since a drafter that is left out learns slowly.
  Acceptance next() const;

 private:
  static constexpr int kRanges = 5;
  struct Estimate {
    double trials = 0, successes = 0, prior = 1;
  };
  using Ranges = std::array<double, kRanges>;

  double estimate(size_t row, int range) const;

  std::array<Ranges, kEvidenceClasses> first_;   // priors of a family of requests
  std::array<Ranges, kEvidenceClasses> priors_;  // of this request
  std::array<std::array<Estimate, kRanges>, kEvidenceClasses> estimates_;
};

// When a drafter that must compute to have an opinion is tried although it does not promise to pay: its acceptance can
// be learnt in no other way. Tries become rarer for as long as they fail.
class Retry {
 public:
  // A step in which the drafter was left out. True: draft one token now.
  bool due();
  // It promised to pay again.
  void reset() { left_ = wait_ = kFirst; }

 private:
  static constexpr int kFirst = 32, kLast = 256;  // steps
  int wait_ = kFirst, left_ = kFirst;
};

// Whether a drafter's steps brought more tokens in their time than steps without drafts do: what was predicted wrongly
// (a cost, an acceptance) shows here. A drafter whose steps did not is left out for a while, then tried again, ever more
// rarely for as long as it fails.
class Balance {
 public:
  // A step with drafts brought `tokens` in `steps` times the time of a step without.
  void observe(int tokens, double steps);
  // A step begins: may it have drafts of this drafter?
  bool allows();

 private:
  static constexpr int kFirst = 32, kLast = 256;  // steps
  double weight_ = 0, tokens_ = 0, steps_ = 0;    // of late
  int wait_ = kFirst, left_ = 0;
};

// Watches drafts that were not verified: as the sequence grows by other means it learns what they would have been
// worth, so that a parked drafter costs nothing and is taken up again as soon as it would pay.
class Shadow {
 public:
  // Starts to watch unless a draft is being watched already.
  void watch(int evidence, std::vector<int32_t> draft);
  // The sequence grew by `tokens`; what that settles is told to `acceptance`.
  void extend(std::span<const int32_t> tokens, Acceptance& acceptance);

 private:
  int evidence_ = 0;
  size_t agreed_ = 0;
  std::vector<int32_t> draft_;
};

// cost[n]: time of a step of n rows over one of 1 row. Beyond the table the last slope goes on.
double step_cost(std::span<const double> cost, int rows);

// One sequence that wants to have drafts verified in the next step.
struct DraftOffer {
  const Acceptance* acceptance = nullptr;
  int evidence = 0;
  int length = 0;     // tokens proposed, at most kMostDraft
  double making = 0;  // time of making one drafted token, over that of a step of 1 row
  // P(accepted | those before were) of the first tokens where more is known than `acceptance` says. They are made
  // already: their making is spent whether they are verified or not. (allot_drafts is asked before anything is made.)
  std::span<const double> known = {};
};

// Expected tokens per time of a step that verifies `drafts` (at most offer.length) tokens of the offer. Arguments as in
// allot_drafts.
double draft_rate(const DraftOffer& offer, int drafts, int decode_rows, int other_rows, std::span<const double> cost);

// Expected tokens per time of a step, the best over how many of the offer's tokens are verified; with offer.length 0 the
// rate without drafts. Arguments as in allot_drafts.
double best_rate(const DraftOffer& offer, int decode_rows, int other_rows, std::span<const double> cost);

// How many of the offer's tokens to verify, as allot_drafts would of this offer alone. More than offer.known has: it pays
// to make another one first.
int best_drafts(const DraftOffer& offer, int decode_rows, int other_rows, std::span<const double> cost);

// Hands out draft rows: how many of each offer to verify in a step that has `other_rows` rows anyway (decode rows of
// all sequences, these included, and prefill rows), of which `decode_rows` bring a token each. It maximises expected
// tokens per time over the step.
std::vector<int> allot_drafts(std::span<const DraftOffer> offers, int decode_rows, int other_rows,
                              std::span<const double> cost);

}  // namespace drafthorse
