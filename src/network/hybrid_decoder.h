#pragma once
// Qwen's hybrid models and mixtures as Networks: the trunk from a checkpoint's tensors, and its drafting head.

#include <memory>

#include "network/hybrid_config.h"
#include "network/network.h"

namespace drafthorse {

// The trunk and the head that is in the checkpoint, beside it or where options.mtp says.
// Errors: corrupt (a tensor is missing or has another shape), unsupported (a tensor that the architecture does not use,
// a tensor whose format has no matrix product).
Result<Network> read_hybrid_decoder(std::shared_ptr<const Checkpoint> checkpoint, const HybridConfig& config,
                                    const ReadOptions& options);

}  // namespace drafthorse
