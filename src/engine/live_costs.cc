#include "engine/live_costs.h"

#include <algorithm>

#include "draft/policy.h"

namespace drafthorse {
namespace {

constexpr double kLearn = 0.1;      // weight of one observation; of the first ones more, as of a mean
constexpr double kLearnRows = 0.3;  // of the rows of a whole prompt, which are seldom entered
constexpr double kForget = 0.01;    // way back to the measured table a step without drafts: parked is not forever
constexpr double kLeast = 0.2, kMost = 50;  // of the scale
constexpr double kPrior = 4;                // steps of a size that the scaled table weighs as much as
constexpr double kFade = 0.98;              // weight that a size's steps keep from one step to the next
constexpr double kOutlier = 3;              // times what was expected: a step that something else interrupted

constexpr double kLeastRise = 0.02;  // of a row, so that one that was free when measured can turn out dear

}  // namespace

LiveCosts::LiveCosts(std::vector<double> measured, double one)
    : measured_(std::move(measured)), seen_(measured_.size()), one_(one) {
  for (size_t n = 1; n < measured_.size(); ++n)
    measured_[n] = std::max(measured_[n], 1 + kLeastRise * static_cast<double>(n - 1));
  cost_ = measured_;
}

void LiveCosts::observe(int rows, double seconds) {
  if (rows < 1 || seconds <= 0) return;
  for (Seen& seen : seen_) seen.weight *= kFade;
  since_one_ = rows == 1 ? 0 : since_one_ + 1;
  if (rows == 1) {
    one_ = one_ == 0 ? seconds : one_ + kLearn * (std::min(seconds, kOutlier * one_) - one_);
    scale_ += kForget * (1 - scale_);
  } else {
    const double rise = step_cost(measured_, rows) - 1;
    if (one_ == 0 || rise <= 0) return;
    const double expected = one_ * (1 + scale_ * rise);
    const double cost = std::min(seconds, kOutlier * expected) / one_;
    steps_ += 1;
    const double learn = std::max(kLearn, 1 / (steps_ + 3));
    scale_ += learn * (std::clamp((cost - 1) / rise, kLeast, std::min(kMost, kOutlier * scale_)) - scale_);
    if (static_cast<size_t>(rows) < seen_.size()) {
      Seen& seen = seen_[static_cast<size_t>(rows)];
      seen.weight += 1;
      seen.cost += (cost - seen.cost) / seen.weight;
    }
  }
  refresh();
}

void LiveCosts::refresh() {
  double least = 1;
  for (size_t n = 1; n < cost_.size(); ++n) {
    const Seen& seen = seen_[n];
    const double scaled = 1 + scale_ * (measured_[n] - 1);
    cost_[n] = least = std::max(least, (seen.weight * seen.cost + kPrior * scaled) / (seen.weight + kPrior));
  }
}

void LiveHeadCost::observe(int tokens, double seconds, double one) {
  if (tokens < 1 || one <= 0) return;
  const double seen = seconds / one / tokens;
  cost_ += kLearn * (std::min(seen, kOutlier * cost_) - cost_);
}

void LiveHeadCost::observe_rows(int rows, int tokens, double seconds, double one) {
  if (rows < 1 || one <= 0) return;
  const double seen = std::max(0.0, seconds / one - tokens * cost_) / rows;
  row_ += kLearnRows * (std::min(seen, kOutlier * std::max(row_, 1e-3)) - row_);
}

}  // namespace drafthorse
