#pragma once
// A mixture of experts (network.h, Moe).

#include <span>
#include <vector>

#include "backend/reference/parts.h"

namespace drafthorse::reference {

struct Choice {
  int expert = 0;
  float weight = 0;
};

// The top_k experts of one row, by (logit descending, index ascending). logits: [experts].
std::vector<Choice> choose_experts(const Moe& part, std::span<const float> logits);

RowsOf moe(const Moe& part, const RowsOf& x, Mode mode);

}  // namespace drafthorse::reference
