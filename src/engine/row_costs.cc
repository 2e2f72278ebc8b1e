#include "engine/row_costs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "core/keyed_file.h"

namespace drafthorse {
namespace {

constexpr int kPrefix = 8;              // positions before the measured rows
constexpr double kSlowStep = 0.15;      // seconds of a 1-row step from which on fewer sizes are measured
constexpr int kProbedRows = 8;          // of the probe that holds kept costs against this moment
constexpr double kProbingTime = 0.15;   // seconds after which the probe ends
constexpr double kDisagreement = 1.3;   // factor between kept and probed costs from which on they are not trusted
constexpr double kSlowerNow = 1.3;      // a probe slower than this says that the machine is busy now
constexpr double kFasterNow = 1.6;      // and a measurement that was so much slower was made on a busy machine
constexpr double kMeasuringTime = 0.6;  // seconds after which no further round begins, but for the second

double seconds_of_run(Model& model, State& state, std::span<const int32_t> tokens) {
  const int before = state.length();
  BatchItem item{&state, tokens, LogitRows::all};
  item.tentative = static_cast<int>(tokens.size());
  const auto start = std::chrono::steady_clock::now();
  model.run({&item, 1});
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  state.truncate(before);
  return spent.count();
}

RowCosts linear_costs() {
  RowCosts costs{0, std::vector<double>(kMeasuredRows + 1)};
  for (int n = 0; n <= kMeasuredRows; ++n) costs.cost[static_cast<size_t>(n)] = n;
  return costs;
}

// A scratch sequence with a few positions before the rows that are timed.
struct Bench {
  std::unique_ptr<State> state;
  std::vector<int32_t> tokens;
  int most = 0;  // rows that it can run; below 2: it cannot
  std::span<const int32_t> rows(int n) const { return std::span(tokens).subspan(kPrefix, static_cast<size_t>(n)); }
};

void run_prefix(Model& model, Bench& bench) {
  const BatchItem prefix{bench.state.get(), std::span(bench.tokens).first(kPrefix), LogitRows::none};
  model.run({&prefix, 1});
}

// Puts the model's own greedy text in place of the rows: with a mixture of experts a step costs what its rows' experts
// cost, and neighbours in a text share more of them than arbitrary tokens do.
void continue_text(Model& model, Bench& bench) {
  for (int n = 0; n + 1 < bench.most; ++n) {
    const BatchItem item{bench.state.get(), bench.rows(n + 1).last(1), LogitRows::last};
    const auto logits = model.run({&item, 1}).logits;
    const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    bench.tokens[size_t{kPrefix + 1} + static_cast<size_t>(n)] = static_cast<int32_t>(likeliest);
  }
  bench.state->truncate(0);
  run_prefix(model, bench);
}

Bench make_bench(Model& model) {
  Bench bench{model.new_state(), std::vector<int32_t>(kPrefix + kMeasuredRows),
              std::min(kMeasuredRows, model.context() - kPrefix)};
  if (bench.most < 2 || !model.reserve(*bench.state, kPrefix + bench.most)) {
    bench.most = 0;
    return bench;
  }
  for (size_t i = 0; i < bench.tokens.size(); ++i)
    bench.tokens[i] = static_cast<int32_t>((i * 7919 + 13) % static_cast<size_t>(model.vocab()));
  run_prefix(model, bench);
  seconds_of_run(model, *bench.state, bench.rows(1));  // the first run pays for pages and caches
  if (seconds_of_run(model, *bench.state, bench.rows(1)) <= kSlowStep) continue_text(model, bench);
  seconds_of_run(model, *bench.state, bench.rows(bench.most));  // and the first of every expert for its own
  return bench;
}

// Fills sizes that were not measured (0) by straight lines; beyond the last, its slope.
void interpolate(std::vector<double>& cost) {
  int known = 1;
  double slope = 1;
  for (int n = 2; n <= kMeasuredRows; ++n) {
    if (cost[static_cast<size_t>(n)] == 0) continue;
    const double low = cost[static_cast<size_t>(known)];
    slope = (cost[static_cast<size_t>(n)] - low) / (n - known);
    for (int i = known + 1; i < n; ++i) cost[static_cast<size_t>(i)] = low + slope * (i - known);
    known = n;
  }
  for (int n = known + 1; n <= kMeasuredRows; ++n)
    cost[static_cast<size_t>(n)] = cost[static_cast<size_t>(n) - 1] + slope;
  for (int n = 2; n <= kMeasuredRows; ++n)
    cost[static_cast<size_t>(n)] = std::max(cost[static_cast<size_t>(n)], cost[static_cast<size_t>(n) - 1]);
}

}  // namespace

RowCosts measure_row_costs(Model& model) {
  const Bench bench = make_bench(model);
  if (bench.most < 2) return linear_costs();
  const bool slow = seconds_of_run(model, *bench.state, bench.rows(1)) > kSlowStep;
  const std::vector<int> sizes =
      slow ? std::vector{1, 2, 4, 8, 16} : std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16};
  RowCosts costs{0, std::vector<double>(kMeasuredRows + 1, 0)};
  // Rounds over all sizes, not all runs of one size at once: a disturbance then hits one run of each.
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 4; ++round) {
    const std::chrono::duration<double> spent_so_far = std::chrono::steady_clock::now() - start;
    if (round > 1 && spent_so_far.count() > kMeasuringTime) break;
    for (int n : sizes) {
      if (n > bench.most) continue;
      const double spent = seconds_of_run(model, *bench.state, bench.rows(n));
      double& best = costs.cost[static_cast<size_t>(n)];
      best = best == 0 ? spent : std::min(best, spent);
    }
  }
  costs.one = std::max(costs.cost[1], 1e-9);
  for (double& c : costs.cost) c /= costs.one;
  interpolate(costs.cost);
  return costs;
}

RowProbe probe_row_costs(Model& model) {
  const Bench bench = make_bench(model);
  if (bench.most < kProbedRows) return {};
  RowProbe probe;
  const auto keep_least = [](double& least, double seconds) {
    least = least == 0 ? seconds : std::min(least, seconds);
  };
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 3; ++round) {
    keep_least(probe.one, seconds_of_run(model, *bench.state, bench.rows(1)));
    keep_least(probe.two, seconds_of_run(model, *bench.state, bench.rows(2)));
    keep_least(probe.eight, seconds_of_run(model, *bench.state, bench.rows(kProbedRows)));
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() > kProbingTime) break;
  }
  probe.one = std::max(probe.one, 1e-9);
  probe.two /= probe.one, probe.eight /= probe.one;
  return probe;
}

KeptCosts judge_kept_costs(const RowCosts& kept, const RowProbe& now) {
  if (!kept) return KeptCosts::measure_and_replace;
  if (now.eight == 0) return KeptCosts::use;
  // Measured while something else ran: their ratios may agree at this size and not at others.
  if (now.one * kFasterNow < kept.one) return KeptCosts::measure_and_replace;
  const auto agree = [](double a, double b) { return a < b * kDisagreement && b < a * kDisagreement; };
  if (agree(now.two, kept.cost[2]) && agree(now.eight, kept.cost[kProbedRows])) return KeptCosts::use;
  return now.one > kSlowerNow * kept.one ? KeptCosts::measure : KeptCosts::measure_and_replace;
}

RowCosts row_costs_for(Model& model, const std::string& file, const std::string& key) {
  const RowCosts kept = read_row_costs(file, key);
  const KeptCosts verdict = judge_kept_costs(kept, kept ? probe_row_costs(model) : RowProbe{});
  if (verdict == KeptCosts::use) return kept;
  const RowCosts measured = measure_row_costs(model);
  if (verdict == KeptCosts::measure_and_replace) (void)write_row_costs(file, key, measured);
  return measured;
}

RowCosts read_row_costs(const std::string& file, const std::string& key) {
  const std::string value = read_keyed(file, key);
  if (value.empty()) return {};
  std::istringstream in(value);
  RowCosts costs{0, {0}};
  in >> costs.one;
  for (double c; in >> c;) costs.cost.push_back(c);
  const auto& cost = costs.cost;
  const bool sound = costs.one >= 0 && costs.one < 1e6 && cost.size() == kMeasuredRows + 1 &&
                     std::is_sorted(cost.begin(), cost.end()) &&
                     std::all_of(cost.begin() + 1, cost.end(), [](double c) { return c >= 1 && c <= 1000; });
  return sound ? costs : RowCosts{};
}

bool write_row_costs(const std::string& file, const std::string& key, const RowCosts& costs) {
  std::string value = fmt::format("{:.6g}", costs.one);
  for (size_t n = 1; n < costs.cost.size(); ++n) value += fmt::format(" {:.4f}", costs.cost[n]);
  return write_keyed(file, key, value);
}

}  // namespace drafthorse
