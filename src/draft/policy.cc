#include "draft/policy.h"

#include <algorithm>
#include <utility>

namespace drafthorse {
namespace {

// What a class is taken to be worth before anything was seen: from short matches to long ones.
constexpr std::array<double, kEvidenceClasses> kPrior = {0.5, 0.35, 0.5, 0.65, 0.8, 0.93};
constexpr double kPriorTrials = 3;  // observations that the prior weighs as much as at first; it fades like them
constexpr double kFade = 0.96;      // weight that an observation keeps when the next one arrives
// Expected gain below which a step is left alone: timing noise and the cost of proposing are of this size.
constexpr double kLeastGain = 1.03;

int range_of(int depth) { return depth <= 1 ? 0 : depth <= 2 ? 1 : depth <= 4 ? 2 : depth <= 8 ? 3 : 4; }

}  // namespace

void Acceptance::observe(int evidence, int proposed, int accepted) {
  const auto row = static_cast<size_t>(std::clamp(evidence, 0, kEvidenceClasses - 1));
  const int compared = std::min(proposed, accepted + 1);
  for (int depth = 1; depth <= compared; ++depth) {
    Estimate& e = estimates_[row][static_cast<size_t>(range_of(depth))];
    e.trials = e.trials * kFade + 1;
    e.successes = e.successes * kFade + (depth <= accepted ? 1 : 0);
    e.prior *= kFade;
  }
}

double Acceptance::conditional(int evidence, int depth) const {
  const auto row = static_cast<size_t>(std::clamp(evidence, 0, kEvidenceClasses - 1));
  // A range that has seen little takes after the one before it.
  double estimate = kPrior[row];
  for (int range = 0; range <= range_of(depth); ++range) {
    const Estimate& e = estimates_[row][static_cast<size_t>(range)];
    estimate = (e.successes + kPriorTrials * e.prior * estimate) / (e.trials + kPriorTrials * e.prior);
  }
  return estimate;
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

std::vector<int> allot_drafts(std::span<const DraftOffer> offers, int decode_rows, int other_rows,
                              std::span<const double> cost) {
  std::vector<int> allotted(offers.size(), 0);
  // gain[i][k]: tokens expected from verifying k drafts of offer i.
  std::vector<std::vector<double>> gain(offers.size());
  for (size_t i = 0; i < offers.size(); ++i) {
    double reach = 1;
    gain[i].push_back(0);
    for (int depth = 1; depth <= std::min(offers[i].length, kMostDraft); ++depth) {
      reach *= offers[i].acceptance->conditional(offers[i].evidence, depth);
      gain[i].push_back(gain[i].back() + reach);
    }
  }
  const double rate_without = decode_rows / step_cost(cost, other_rows);
  double tokens = decode_rows, rate = rate_without;
  int rows = other_rows;
  // Row costs have steps (a kernel's tile), so a move may add several rows at once to one sequence.
  for (;;) {
    size_t best = offers.size();
    int best_length = 0;
    double best_rate = rate;
    for (size_t i = 0; i < offers.size(); ++i) {
      for (int k = allotted[i] + 1; k < static_cast<int>(gain[i].size()); ++k) {
        const auto now = static_cast<size_t>(allotted[i]);
        const double moved =
            (tokens + gain[i][static_cast<size_t>(k)] - gain[i][now]) / step_cost(cost, rows + k - allotted[i]);
        if (moved > best_rate) {
          best_rate = moved;
          best = i;
          best_length = k;
        }
      }
    }
    if (best == offers.size()) break;
    tokens += gain[best][static_cast<size_t>(best_length)] - gain[best][static_cast<size_t>(allotted[best])];
    rows += best_length - allotted[best];
    allotted[best] = best_length;
    rate = best_rate;
  }
  if (rate < rate_without * kLeastGain) std::fill(allotted.begin(), allotted.end(), 0);
  return allotted;
}

}  // namespace drafthorse
