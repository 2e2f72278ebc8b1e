#include "engine/head_cost.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "draft/draft_vocabulary.h"

namespace drafthorse {
namespace {

constexpr int kRounds = 4;

double seconds_of_run(Model& model, State& state, std::span<const float> joined) {
  const int32_t token = 1 % model.vocab();
  BatchItem item{&state, {&token, 1}, LogitRows::last};
  item.joined = joined;
  item.hidden = joined.empty() ? Hidden::none : Hidden::after_norm;
  if (!joined.empty()) item.columns = draft_columns({}, model.vocab());
  const auto start = std::chrono::steady_clock::now();
  model.run({&item, 1});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double measure_head_cost(Model& model, Model& head) {
  const auto model_state = model.new_state(), head_state = head.new_state();
  if (!model.reserve(*model_state, kRounds) || !head.reserve(*head_state, kRounds)) return 1e9;
  const std::vector<float> joined(static_cast<size_t>(head.hidden()), 0.5f);
  double step = 1e9, draft = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    step = std::min(step, seconds_of_run(model, *model_state, {}));
    draft = std::min(draft, seconds_of_run(head, *head_state, joined));
  }
  return draft / std::max(step, 1e-9);
}

}  // namespace drafthorse
