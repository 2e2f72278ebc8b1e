#pragma once
// One budget for weights and KV, checked before anything is loaded.

#include <cstdint>
#include <filesystem>

#include "core/result.h"
#include "network/network.h"

namespace drafthorse {

// Bytes that this process may use: the smallest of the machine's memory and the limits of its cgroups.
// `root` is "/" but in tests.
uint64_t machine_memory(const std::filesystem::path& root = "/");

// KV bytes of one position, all layers, 16-bit keys and values; 0 for a network that no backend runs.
uint64_t kv_bytes_per_position(const Network& network);

struct MemoryPlan {
  uint64_t budget = 0, weights = 0;
  int context = 0;  // positions a sequence may have
  uint64_t kv = 0;  // of the model's pool; a drafting head's comes on top, in proportion
};
// budget 0: nine tenths of the machine. context 0: the model's own. kv 0: up to four contexts and eight recurrent states,
// as far as they fit.
// Error: out_of_memory with the numbers and the context that would fit.
Result<MemoryPlan> plan_memory(const Network& network, uint64_t budget, int context, uint64_t kv,
                               uint64_t machine = machine_memory());

}  // namespace drafthorse
