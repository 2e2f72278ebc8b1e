#include "engine/live_costs.h"

#include <algorithm>

#include "draft/policy.h"

namespace drafthorse {
namespace {

constexpr double kLearn = 0.1;    // weight of one observation
constexpr double kForget = 0.01;  // way back to the measured table a step without drafts: parked is not forever
constexpr double kLeast = 0.2, kMost = 8;  // of the scale
constexpr double kOutlier = 3;             // times what was expected: a step that something else interrupted

}  // namespace

LiveCosts::LiveCosts(std::vector<double> measured, double one)
    : measured_(std::move(measured)), cost_(measured_), one_(one) {}

void LiveCosts::observe(int rows, double seconds) {
  if (rows < 1 || seconds <= 0) return;
  if (rows == 1) {
    one_ = one_ == 0 ? seconds : one_ + kLearn * (std::min(seconds, kOutlier * one_) - one_);
    scale_ += kForget * (1 - scale_);
  } else {
    const double rise = step_cost(measured_, rows) - 1;
    if (one_ == 0 || rise <= 0.01) return;
    const double expected = one_ * (1 + scale_ * rise);
    const double seen = (std::min(seconds, kOutlier * expected) / one_ - 1) / rise;
    scale_ += kLearn * (std::clamp(seen, kLeast, kMost) - scale_);
  }
  for (size_t n = 1; n < cost_.size(); ++n) cost_[n] = 1 + scale_ * (measured_[n] - 1);
}

void LiveHeadCost::observe(int tokens, double seconds, double one) {
  if (tokens < 1 || one <= 0) return;
  const double seen = seconds / one / tokens;
  cost_ += kLearn * (std::min(seen, kOutlier * cost_) - cost_);
}

}  // namespace drafthorse
