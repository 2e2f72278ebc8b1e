#pragma once
// What a step of n rows costs on this machine, measured with the model itself and kept in a file.

#include <string>
#include <vector>

#include "backend/backend.h"

namespace drafthorse {

inline constexpr int kMeasuredRows = 16;

// cost[n], n = 1..16: shortest of a few runs of n rows over that of 1 row, never falling with n; index 0 unused.
// Uses a scratch state that is gone afterwards. About a second in all for models of up to about 1 GB.
// When the KV pool cannot take the rows the answer is cost[n] = n, with which drafting never pays.
std::vector<double> measure_row_costs(Model& model);

// The costs stored under `key` in `file`; empty when there are none (or the file is absent or not ours).
std::vector<double> read_row_costs(const std::string& file, const std::string& key);
// Adds or replaces them. A file that cannot be written is no error for a server: returns false.
bool write_row_costs(const std::string& file, const std::string& key, const std::vector<double>& cost);

}  // namespace drafthorse
