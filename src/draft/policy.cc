#include "draft/policy.h"

#include <algorithm>
#include <utility>

namespace drafthorse {
namespace {

// Of prompt lookup: from short matches to long ones.
constexpr Acceptance::Priors kLookupPriors = {0.5, 0.35, 0.5, 0.65, 0.8, 0.93};
constexpr double kPriorTrials = 3;    // observations that the prior weighs as much as at first; it fades like them
constexpr double kFade = 0.96;        // weight that an observation keeps when the next one arrives
constexpr double kBalanceFade = 0.9;  // weight that a step keeps in the balance when the next one arrives
constexpr double kBalanceSteps = 5;   // weight from which on it is trusted: 7 steps
// Expected gain below which a step is left alone: timing noise and the cost of proposing are of this size.
constexpr double kLeastGain = 1.03;

int range_of(int depth) { return depth <= 1 ? 0 : depth <= 2 ? 1 : depth <= 4 ? 2 : depth <= 8 ? 3 : 4; }

// gains[k]: tokens expected from verifying k drafts of the offer.
std::vector<double> gains_of(const DraftOffer& offer) {
  std::vector<double> gains{0};
  double reach = 1;
  for (int depth = 1; depth <= std::min(offer.length, kMostDraft); ++depth) {
    const auto i = static_cast<size_t>(depth) - 1;
    reach *= i < offer.known.size() ? offer.known[i] : offer.acceptance->conditional(offer.evidence, depth);
    gains.push_back(gains.back() + reach);
  }
  return gains;
}

// Time of making what is made when k drafts are verified.
double making_of(const DraftOffer& offer, int k) {
  return offer.making * std::max(k, static_cast<int>(offer.known.size()));
}

// Expected tokens per time of a step that verifies k drafts.
double rate_of(const DraftOffer& offer, std::span<const double> gains, int k, int decode_rows, int other_rows,
               std::span<const double> cost) {
  return (decode_rows + gains[static_cast<size_t>(k)]) / (step_cost(cost, other_rows + k) + making_of(offer, k));
}

}  // namespace

Acceptance::Acceptance() : Acceptance(kLookupPriors) {}

Acceptance::Acceptance(const Priors& priors) {
  for (size_t row = 0; row < priors.size(); ++row) first_[row].fill(priors[row]);
  priors_ = first_;
}

bool Retry::due() {
  if (--left_ > 0) return false;
  wait_ = std::min(wait_ * 2, kLast);
  left_ = wait_;
  return true;
}

void Acceptance::observe_at(int evidence, int depth, bool agreed) {
  const auto row = static_cast<size_t>(std::clamp(evidence, 0, kEvidenceClasses - 1));
  Estimate& e = estimates_[row][static_cast<size_t>(range_of(depth))];
  e.trials = e.trials * kFade + 1;
  e.successes = e.successes * kFade + (agreed ? 1 : 0);
  e.prior *= kFade;
}

void Acceptance::observe(int evidence, int proposed, int accepted) {
  const int compared = std::min(proposed, accepted + 1);
  for (int depth = 1; depth <= compared; ++depth) observe_at(evidence, depth, depth <= accepted);
}

double Acceptance::estimate(size_t row, int range) const {
  double found = 0;
  for (int r = 0; r <= range; ++r) {
    const Estimate& e = estimates_[row][static_cast<size_t>(r)];
    double prior = priors_[row][static_cast<size_t>(r)];
    // A range that has seen little differs from its prior as the one before it does.
    if (r > 0) prior = std::min(1.0, prior * found / std::max(priors_[row][static_cast<size_t>(r) - 1], 1e-3));
    found = (e.successes + kPriorTrials * e.prior * prior) / (e.trials + kPriorTrials * e.prior);
  }
  return found;
}

double Acceptance::conditional(int evidence, int depth) const {
  return estimate(static_cast<size_t>(std::clamp(evidence, 0, kEvidenceClasses - 1)), range_of(depth));
}

Acceptance Acceptance::next() const {
  Acceptance next = *this;
  next.estimates_ = {};
  for (size_t row = 0; row < first_.size(); ++row) {
    for (int range = 0; range < kRanges; ++range) {
      const auto r = static_cast<size_t>(range);
      const double seen = estimate(row, range);
      next.priors_[row][r] = std::max(seen, (seen + first_[row][r]) / 2);
    }
  }
  return next;
}

void Balance::observe(int tokens, double steps) {
  weight_ = weight_ * kBalanceFade + 1;
  tokens_ = tokens_ * kBalanceFade + tokens;
  steps_ = steps_ * kBalanceFade + steps;
  if (weight_ < kBalanceSteps) return;
  if (tokens_ >= steps_) {
    wait_ = kFirst;
    return;
  }
  left_ = wait_;
  wait_ = std::min(wait_ * 2, kLast);
  weight_ = tokens_ = steps_ = 0;
}

bool Balance::allows() {
  if (left_ == 0) return true;
  --left_;
  return false;
}

void Shadow::watch(int evidence, std::vector<int32_t> draft) {
  if (agreed_ < draft_.size()) return;
  evidence_ = evidence;
  agreed_ = 0;
  draft_ = std::move(draft);
}

void Shadow::extend(std::span<const int32_t> tokens, Acceptance& acceptance) {
  for (int32_t token : tokens) {
    if (agreed_ >= draft_.size()) return;
    const bool agrees = token == draft_[agreed_];
    if (agrees) ++agreed_;
    if (agrees && agreed_ < draft_.size()) continue;
    acceptance.observe(evidence_, static_cast<int>(draft_.size()), static_cast<int>(agreed_));
    draft_.clear();
    agreed_ = 0;
  }
}

double step_cost(std::span<const double> cost, int rows) {
  const int last = static_cast<int>(cost.size()) - 1;
  if (last < 1) return 1;
  if (rows <= last) return cost[static_cast<size_t>(std::max(rows, 1))];
  const int base = std::max(1, last / 2);
  const double slope =
      last > base ? (cost[static_cast<size_t>(last)] - cost[static_cast<size_t>(base)]) / (last - base) : 0;
  return cost[static_cast<size_t>(last)] + slope * (rows - last);
}

double draft_rate(const DraftOffer& offer, int drafts, int decode_rows, int other_rows, std::span<const double> cost) {
  const std::vector<double> gains = gains_of(offer);
  return rate_of(offer, gains, std::clamp(drafts, 0, static_cast<int>(gains.size()) - 1), decode_rows, other_rows,
                 cost);
}

double best_rate(const DraftOffer& offer, int decode_rows, int other_rows, std::span<const double> cost) {
  const std::vector<double> gains = gains_of(offer);
  double best = 0;
  for (int k = 0; k < static_cast<int>(gains.size()); ++k) {
    best = std::max(best, rate_of(offer, gains, k, decode_rows, other_rows, cost));
  }
  return best;
}

int best_drafts(const DraftOffer& offer, int decode_rows, int other_rows, std::span<const double> cost) {
  const std::vector<double> gains = gains_of(offer);
  int best = 0;
  double top = rate_of(offer, gains, 0, decode_rows, other_rows, cost) * kLeastGain;
  for (int k = 1; k < static_cast<int>(gains.size()); ++k) {
    const double rate = rate_of(offer, gains, k, decode_rows, other_rows, cost);
    if (rate > top) top = rate, best = k;
  }
  return best;
}

std::vector<int> allot_drafts(std::span<const DraftOffer> offers, int decode_rows, int other_rows,
                              std::span<const double> cost) {
  std::vector<int> allotted(offers.size(), 0);
  std::vector<std::vector<double>> gains;
  for (const DraftOffer& offer : offers) gains.push_back(gains_of(offer));
  const double rate_without = decode_rows / step_cost(cost, other_rows);
  double tokens = decode_rows, rate = rate_without, making = 0;
  int rows = other_rows;
  // Row costs have steps (a kernel's tile), so a move may add several rows at once to one sequence.
  for (;;) {
    size_t best = offers.size();
    int best_length = 0;
    double top = rate;
    for (size_t i = 0; i < offers.size(); ++i) {
      const int now = allotted[i];
      for (int k = now + 1; k < static_cast<int>(gains[i].size()); ++k) {
        const double gain = gains[i][static_cast<size_t>(k)] - gains[i][static_cast<size_t>(now)];
        const double time = step_cost(cost, rows + k - now) + making + (k - now) * offers[i].making;
        if ((tokens + gain) / time > top) {
          top = (tokens + gain) / time;
          best = i;
          best_length = k;
        }
      }
    }
    if (best == offers.size()) break;
    const int added = best_length - allotted[best];
    tokens += gains[best][static_cast<size_t>(best_length)] - gains[best][static_cast<size_t>(allotted[best])];
    making += added * offers[best].making;
    rows += added;
    allotted[best] = best_length;
    rate = top;
  }
  if (rate < rate_without * kLeastGain) std::fill(allotted.begin(), allotted.end(), 0);
  return allotted;
}

}  // namespace drafthorse
