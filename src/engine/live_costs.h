#pragma once
// Row costs kept true while the engine runs: the ones measured at load know neither this context's length nor what
// else the machine does now.

#include <span>
#include <vector>

namespace drafthorse {

// The measured table with its rise scaled by a: cost[n] = 1 + a * (measured[n] - 1), a from the steps themselves, and
// drawn towards what steps of n rows took of late where there were some. Never falling with n.
class LiveCosts {
 public:
  // one: seconds of a 1-row step as measured; 0: not known.
  explicit LiveCosts(std::vector<double> measured, double one = 0);

  // A step with decode and verify rows of one sequence and nothing else took `seconds` in all, without the making of
  // drafts.
  void observe(int rows, double seconds);
  // cost[n], n = 1..16, as measured by step_cost().
  std::span<const double> cost() const { return cost_; }
  double scale() const { return scale_; }
  // Seconds of a 1-row step of late; 0: none was seen.
  double one() const { return one_; }
  // Steps since one of 1 row showed what it takes now.
  int steps_since_one() const { return since_one_; }

 private:
  // Steps of one size of late: their number and their mean cost.
  struct Seen {
    double weight = 0, cost = 0;
  };
  void refresh();

  std::vector<double> measured_, cost_;
  std::vector<Seen> seen_;
  double one_ = 0;  // seconds of a 1-row step, recent mean; 0: none yet
  int since_one_ = 0;
  double scale_ = 1, steps_ = 0;  // steps: those that the scale has learnt from
};

// What a token drafted by a head costs, in 1-row steps, kept true in the same way: it grows with the context, and with the
// share of the vocabulary that the text at hand asks for.
class LiveHeadCost {
 public:
  explicit LiveHeadCost(double measured = 0) : cost_(measured), row_(kRowShare * measured) {}
  // `tokens` were drafted in `seconds`, while a 1-row step takes `one` (0: not known, nothing is learnt).
  void observe(int tokens, double seconds, double one);
  // Many rows, which gave `tokens` drafts at most, were entered into its cache.
  void observe_rows(int rows, int tokens, double seconds, double one);
  double cost() const { return cost_; }
  // Of a row that is entered with many others.
  double row() const { return row_; }

 private:
  static constexpr double kRowShare = 0.2;  // of the cost of a token, until rows were seen
  double cost_, row_;
};

}  // namespace drafthorse
