#pragma once
// The token that Gumbel-max sampling takes: the largest scaled logit + noise keyed by (seed, position, token), the
// lowest id on ties. Noise in full is computed only for tokens that can still win; which ones those are changes
// nothing.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/row_scan.h"

namespace drafthorse {

// Among all tokens of a row. -1 when every logit is -infinity.
int32_t gumbel_choice(std::span<const float> row, Scale scale, uint64_t seed, uint64_t position);
// Among some, in any order. -1 when there are none.
int32_t gumbel_choice(std::span<const Candidate> candidates, uint64_t seed, uint64_t position);

}  // namespace drafthorse
