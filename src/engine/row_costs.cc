#include "engine/row_costs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include <fmt/format.h>

namespace drafthorse {
namespace {

constexpr int kPrefix = 8;              // positions before the measured rows
constexpr size_t kKeptKeys = 64;        // of one cache file
constexpr double kSlowStep = 0.15;      // seconds of a 1-row step from which on fewer sizes are measured
constexpr double kMeasuringTime = 0.6;  // seconds after which no further round begins

double seconds_of_run(Model& model, State& state, std::span<const int32_t> tokens) {
  const int before = state.length();
  const BatchItem item{&state, tokens, LogitRows::all};
  const auto start = std::chrono::steady_clock::now();
  model.run({&item, 1});
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  state.truncate(before);
  return spent.count();
}

std::vector<double> linear_costs() {
  std::vector<double> cost(kMeasuredRows + 1);
  for (int n = 0; n <= kMeasuredRows; ++n) cost[static_cast<size_t>(n)] = n;
  return cost;
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

std::string one_line(std::string key) {
  for (char& c : key)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  return key;
}

std::vector<std::string> read_lines(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; lines.size() < 4 * kKeptKeys && std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<double> measure_row_costs(Model& model) {
  const int most = std::min(kMeasuredRows, model.context() - kPrefix);
  const auto state = model.new_state();
  if (most < 2 || !model.reserve(*state, kPrefix + most)) return linear_costs();
  std::vector<int32_t> tokens(kPrefix + kMeasuredRows);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>((i * 7919 + 13) % static_cast<size_t>(model.vocab()));
  const BatchItem prefix{state.get(), std::span(tokens).first(kPrefix), LogitRows::none};
  model.run({&prefix, 1});

  const std::span rows = std::span(tokens).subspan(kPrefix);
  seconds_of_run(model, *state, rows.first(1));  // the first run pays for pages and caches
  const bool slow = seconds_of_run(model, *state, rows.first(1)) > kSlowStep;
  const std::vector<int> sizes =
      slow ? std::vector{1, 2, 4, 8, 16} : std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16};
  std::vector<double> cost(kMeasuredRows + 1, 0);
  // Rounds over all sizes, not all runs of one size at once: a disturbance then hits one run of each.
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 4; ++round) {
    const std::chrono::duration<double> spent_so_far = std::chrono::steady_clock::now() - start;
    if (round > 0 && spent_so_far.count() > kMeasuringTime) break;
    for (int n : sizes) {
      if (n > most) continue;
      const double spent = seconds_of_run(model, *state, rows.first(static_cast<size_t>(n)));
      double& best = cost[static_cast<size_t>(n)];
      best = best == 0 ? spent : std::min(best, spent);
    }
  }
  const double one = std::max(cost[1], 1e-9);
  for (double& c : cost) c /= one;
  interpolate(cost);
  return cost;
}

std::vector<double> read_row_costs(const std::string& file, const std::string& key) {
  if (file.empty()) return {};
  const std::string prefix = one_line(key) + "\t";
  for (const auto& line : read_lines(file)) {
    if (!line.starts_with(prefix)) continue;
    std::istringstream in(line.substr(prefix.size()));
    std::vector<double> cost{0};
    for (double c; in >> c;) cost.push_back(c);
    const bool sound = cost.size() == kMeasuredRows + 1 &&
                       std::all_of(cost.begin() + 1, cost.end(), [](double c) { return c >= 1 && c <= 1000; });
    return sound ? cost : std::vector<double>{};
  }
  return {};
}

bool write_row_costs(const std::string& file, const std::string& key, const std::vector<double>& cost) {
  if (file.empty()) return false;
  const std::string prefix = one_line(key) + "\t";
  auto lines = read_lines(file);
  std::erase_if(lines, [&](const std::string& line) { return line.starts_with(prefix); });
  std::string line = prefix;
  for (size_t n = 1; n < cost.size(); ++n) line += fmt::format("{}{:.4f}", n > 1 ? " " : "", cost[n]);
  lines.push_back(line);
  if (lines.size() > kKeptKeys) lines.erase(lines.begin(), lines.end() - kKeptKeys);

  std::error_code ignored;
  const std::filesystem::path path(file);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  const std::string partial = fmt::format("{}.{}", file, ::getpid());
  {
    std::ofstream out(partial, std::ios::trunc);
    for (const auto& l : lines) out << l << '\n';
    if (!out.flush()) return false;
  }
  std::filesystem::rename(partial, path, ignored);
  return !ignored;
}

}  // namespace drafthorse
