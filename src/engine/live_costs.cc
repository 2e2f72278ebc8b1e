#include "engine/live_costs.h"

#include <algorithm>

#include "draft/policy.h"

namespace drafthorse {
namespace {

constexpr double kLearn = 0.1;    // weight of one observation; of the first ones more, as of a mean
constexpr double kForget = 0.01;  // way back to the measured table a step without drafts: parked is not forever
constexpr double kLeast = 0.2, kMost = 8;  // of the scale
constexpr double kPrior = 4;               // steps of a size that the scaled table weighs as much as
constexpr double kFade = 0.98;             // weight that a size's steps keep from one step to the next
constexpr double kOutlier = 3;             // times what was expected: a step that something else interrupted

}  // namespace

LiveCosts::LiveCosts(std::vector<double> measured, double one)
    : measured_(std::move(measured)), cost_(measured_), seen_(measured_.size()), one_(one) {}

void LiveCosts::observe(int rows, double seconds) {
  if (rows < 1 || seconds <= 0) return;
  for (Seen& seen : seen_) seen.weight *= kFade;
  since_one_ = rows == 1 ? 0 : since_one_ + 1;
  if (rows == 1) {
    one_ = one_ == 0 ? seconds : one_ + kLearn * (std::min(seconds, kOutlier * one_) - one_);
    scale_ += kForget * (1 - scale_);
  } else {
    const double rise = step_cost(measured_, rows) - 1;
    if (one_ == 0 || rise <= 0.01) return;
    const double expected = one_ * (1 + scale_ * rise);
    const double cost = std::min(seconds, kOutlier * expected) / one_;
    steps_ += 1;
    const double learn = std::max(kLearn, 1 / (steps_ + 3));
    scale_ += learn * (std::clamp((cost - 1) / rise, kLeast, std::min(kMost, kOutlier * scale_)) - scale_);
    if (static_cast<size_t>(rows) < seen_.size()) {
      Seen& seen = seen_[static_cast<size_t>(rows)];
      seen.weight += 1;
      seen.factor += (cost / (1 + scale_ * rise) - seen.factor) / seen.weight;
    }
  }
  refresh();
}

void LiveCosts::refresh() {
  double least = 1;
  for (size_t n = 1; n < cost_.size(); ++n) {
    const Seen& seen = seen_[n];
    const double factor = (seen.weight * seen.factor + kPrior) / (seen.weight + kPrior);
    cost_[n] = least = std::max(least, factor * (1 + scale_ * (measured_[n] - 1)));
  }
}

void LiveHeadCost::observe(int tokens, double seconds, double one) {
  if (tokens < 1 || one <= 0) return;
  const double seen = seconds / one / tokens;
  cost_ += kLearn * (std::min(seen, kOutlier * cost_) - cost_);
}

}  // namespace drafthorse
