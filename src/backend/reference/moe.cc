#include "backend/reference/moe.h"

#include <cmath>

#include "core/math.h"

namespace drafthorse::reference {

std::vector<Choice> choose_experts(const Moe& part, std::span<const float> logits) {
  std::vector<Choice> choices;
  std::vector<bool> taken(logits.size());
  for (int rank = 0; rank < part.top_k; ++rank) {
    int best = -1;
    for (int e = 0; e < int(logits.size()); ++e) {
      if (!taken[e] && (best < 0 || logits[e] > logits[best])) best = e;
    }
    taken[best] = true;
    choices.push_back({best});
  }
  const float most = logits[choices[0].expert];
  for (Choice& choice : choices) choice.weight = exp_fixed(logits[choice.expert] - most);
  float sum = 0;
  if (part.normalised) {
    for (const Choice& choice : choices) sum += choice.weight;
  } else {
    for (const float logit : logits) sum += exp_fixed(logit - most);
  }
  for (Choice& choice : choices) choice.weight /= sum;
  return choices;
}

RowsOf moe(const Moe& part, const RowsOf& x, Mode mode) {
  const RowsOf logits = linear(part.router, x, mode);
  std::vector<std::vector<Choice>> choices;
  for (const Row& row : logits) choices.push_back(choose_experts(part, row));

  // Each expert once, on the rows that chose it; outputs[row][rank] is added up in rank order below.
  std::vector<RowsOf> outputs(x.size(), RowsOf(size_t(part.top_k)));
  for (size_t e = 0; e < part.experts.size(); ++e) {
    RowsOf inputs;
    std::vector<Row*> places;
    for (size_t r = 0; r < x.size(); ++r) {
      for (size_t rank = 0; rank < choices[r].size(); ++rank) {
        if (choices[r][rank].expert != int(e)) continue;
        inputs.push_back(x[r]);
        places.push_back(&outputs[r][rank]);
      }
    }
    if (inputs.empty()) continue;
    RowsOf results = mlp(part.experts[e], inputs, mode);
    for (size_t i = 0; i < places.size(); ++i) *places[i] = std::move(results[i]);
  }

  RowsOf y(x.size());
  for (size_t r = 0; r < x.size(); ++r) {
    y[r].resize(x[r].size());
    for (size_t rank = 0; rank < choices[r].size(); ++rank) {
      const float weight = choices[r][rank].weight;
      for (size_t i = 0; i < y[r].size(); ++i) y[r][i] = std::fma(weight, outputs[r][rank][i], y[r][i]);
    }
  }
  if (!part.shared) return y;
  const RowsOf shared = mlp(*part.shared, x, mode);
  RowsOf gates;
  if (part.shared_gate) gates = linear(*part.shared_gate, x, mode);
  for (size_t r = 0; r < x.size(); ++r) {
    for (size_t i = 0; i < y[r].size(); ++i) {
      y[r][i] = part.shared_gate ? std::fma(sigmoid_fixed(gates[r][0]), shared[r][i], y[r][i]) : y[r][i] + shared[r][i];
    }
  }
  return y;
}

}  // namespace drafthorse::reference
