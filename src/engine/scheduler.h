#pragma once
// What the next step runs: a decode row and drafts of every sequence that decodes, and prefill rows of those that do
// not yet.

#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.h"

namespace drafthorse {

struct StepLimits {
  int prefill_chunk = 256;
  int context = 0, vocab = 0;
  std::span<const double> row_cost;
};

// Asks the drafters and fills Sequence::rows, draft and evidence of the running sequences (oldest first). Sequences
// without rows sit the step out (the prefill budget went to older ones).
void plan_step(std::span<const std::shared_ptr<Sequence>> running, const StepLimits& limits);

}  // namespace drafthorse
