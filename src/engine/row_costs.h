#pragma once
// What a step of n rows costs on this machine, measured with the model itself and kept in a file.

#include <string>
#include <vector>

#include "backend/backend.h"

namespace drafthorse {

inline constexpr int kMeasuredRows = 16;

struct RowCosts {
  double one = 0;            // seconds of a step of 1 row, the shortest seen
  std::vector<double> cost;  // cost[n], n = 1..16: a step of n rows over one of 1 row, never falling; index 0 unused
  explicit operator bool() const { return !cost.empty(); }
};

// Each the shortest of a few runs. Uses a scratch state that is gone afterwards. About a second in all for models of up
// to about 1 GB. When the KV pool cannot take the rows the answer is cost[n] = n, with which drafting never pays.
RowCosts measure_row_costs(Model& model);

// A few runs of 1 row, 2 and 8.
struct RowProbe {
  double one = 0;             // seconds
  double two = 0, eight = 0;  // over `one`; 0: the model could not run them
};
RowProbe probe_row_costs(Model& model);

// What to do with costs that were kept, given a probe of now: use them where they agree; where they do not, measure, and
// replace them unless the probe was slower than the measurement was (something else is running now, not then). Kept
// ones that were much slower than the probe are replaced in any case: something else was running then.
enum class KeptCosts { use, measure, measure_and_replace };
KeptCosts judge_kept_costs(const RowCosts& kept, const RowProbe& now);

// The costs of `file` when they still hold, else measured ones, which are then kept. `key`: checkpoint and processor.
RowCosts row_costs_for(Model& model, const std::string& file, const std::string& key);

// The costs stored under `key` in `file`; empty when there are none (or the file is absent or not ours).
RowCosts read_row_costs(const std::string& file, const std::string& key);
// Adds or replaces them; other programs see the old file or the new one. A file that cannot be written is no error for
// a server: returns false.
bool write_row_costs(const std::string& file, const std::string& key, const RowCosts& costs);

}  // namespace drafthorse
