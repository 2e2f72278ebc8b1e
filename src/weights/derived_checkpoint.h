#pragma once
// A checkpoint made from another one: some tensors put together anew, or other checkpoints kept alive with it.

#include <memory>
#include <vector>

#include "weights/checkpoint.h"
#include "weights/tensor_rows.h"

namespace drafthorse {

// `base` with the tensors named in `replaced` left out and those of `gathered` added. What it gives lives as long as it
// does, and it keeps `base` and everything in `kept` alive.
std::shared_ptr<const Checkpoint> derive_checkpoint(std::shared_ptr<const Checkpoint> base,
                                                    const std::vector<std::string>& replaced,
                                                    std::vector<GatheredTensor> gathered,
                                                    std::vector<std::shared_ptr<const Checkpoint>> kept);

}  // namespace drafthorse
