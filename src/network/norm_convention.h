#pragma once
// Whether a file stores the weights of its norms as they are, or minus one (Qwen3.5, Qwen3-Next as first published).

#include <filesystem>
#include <optional>
#include <vector>

#include "network/hybrid_config.h"
#include "network/hybrid_names.h"
#include "network/network.h"

namespace drafthorse {

// What the values of some norms look like.
struct NormStatistics {
  int64_t count = 0, not_positive = 0;
  double sum = 0;
  double share_not_positive() const {
    return count ? static_cast<double>(not_positive) / static_cast<double>(count) : 0;
  }
  double mean() const { return count ? sum / static_cast<double>(count) : 0; }
};
// Of the norms that are there; others are left out.
NormStatistics norm_statistics(const std::vector<const TensorView*>& norms);

// The offset of a trunk's norms, 0 or 1. A convolution whose last axis is the kernel was not converted: its file stores
// norms minus one. Without any convolution the values decide: more than 5 % of them not positive means minus one. Logs a
// warning when the convolution and the values disagree.
float trunk_norm_offset(const Checkpoint& checkpoint, const HybridConfig& config, const ModelNames& names);

// The offset of a drafting head's norms. In the trunk's own file and not converted: as the trunk. Else, in this order:
// rmsnorm_weight_format in mtp/manifest.json or manifest.json beside the file ("mlx_gamma": as they are); more than 5 %
// of the values not positive: minus one; some not positive: minus one when their mean is more than 0.4 below that of the
// trunk's norms of the same names.
Result<float> head_norm_offset(const Checkpoint& checkpoint, const HeadNames& names, const Network& trunk,
                               bool with_trunk, float trunk_offset);

}  // namespace drafthorse
