#pragma once
// The gated delta rule (network.h, DeltaNet) row by row, the state of every row that may be taken back kept whole.

#include <vector>

#include "backend/reference/parts.h"

namespace drafthorse::reference {

// What a layer carries from one row to the next.
struct DeltaState {
  RowsOf conv;  // the last kernel - 1 inputs of the convolution, oldest first
  Row s;        // [value_heads][value_dim][key_dim]
};

// history[0]: the committed state; history[i]: the state after i of the last run's tentative rows.
using DeltaHistory = std::vector<DeltaState>;

DeltaState empty_state(const DeltaNet& part);

// Rows after those that history.back() has seen. The last `tentative` of them stay apart in the history.
RowsOf delta_net(const DeltaNet& part, const RowsOf& x, int tentative, DeltaHistory& history, Mode mode);

}  // namespace drafthorse::reference
