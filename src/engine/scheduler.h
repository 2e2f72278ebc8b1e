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
  double head_cost = 0;    // of one token drafted by the head, over a step of 1 row
  double entry_cost = 0;   // of a row that the head's cache lacks, likewise
  bool plain_due = false;  // what a step of 1 row takes was not seen for long: show it, where that costs little
};

// Asks the drafters and fills Sequence::rows, draft, evidence, source and head_depth of the running sequences (oldest
// first). Sequences without rows sit the step out (the prefill budget went to older ones). Drafts are not among the rows
// yet: the head's have still to be made, see add_draft_rows.
void plan_step(std::span<const std::shared_ptr<Sequence>> running, const StepLimits& limits);

// Adds every sequence's draft to its rows.
void add_draft_rows(std::span<const std::shared_ptr<Sequence>> running);

}  // namespace drafthorse
