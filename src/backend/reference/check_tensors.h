#pragma once

#include "core/result.h"
#include "network/network.h"

namespace drafthorse::reference {

// That every tensor of the network which a run will read can be read. Errors name the block and the tensor.
Status check_tensors(const Network& network);

}  // namespace drafthorse::reference
