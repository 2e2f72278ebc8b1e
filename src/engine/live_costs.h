#pragma once
// Row costs kept true while the engine runs: the ones measured at load know neither this context's length nor what
// else the machine does now.

#include <span>
#include <vector>

namespace drafthorse {

// The measured table with its rise scaled by a: cost[n] = 1 + a * (measured[n] - 1), a from the steps themselves.
class LiveCosts {
 public:
  explicit LiveCosts(std::vector<double> measured);

  // A step with decode and verify rows of one sequence and nothing else took `seconds`.
  void observe(int rows, double seconds);
  // cost[n], n = 1..16, as measured by step_cost().
  std::span<const double> cost() const { return cost_; }
  double scale() const { return scale_; }

 private:
  std::vector<double> measured_, cost_;
  double one_ = 0;  // seconds of a 1-row step, recent mean; 0: none yet
  double scale_ = 1;
};

}  // namespace drafthorse
