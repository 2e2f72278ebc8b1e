#include "completion/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "core/cgroup.h"

namespace drafthorse {
namespace {

constexpr uint64_t kMiB = 1u << 20;

// The first number of a file; 0 when there is none ("max").
uint64_t read_number(const std::filesystem::path& path) {
  std::ifstream in(path);
  uint64_t number = 0;
  return in >> number ? number : 0;
}

uint64_t total_memory(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  for (std::string line; in >> name >> kib; std::getline(in, line))
    if (name == "MemTotal:") return kib * 1024;
  return 0;
}

uint64_t weight_bytes(const Network& network) {
  uint64_t bytes = 0;
  for (const auto& tensor : network.checkpoint->tensors()) bytes += tensor.bytes();
  return bytes;
}

}  // namespace

uint64_t machine_memory(const std::filesystem::path& root) {
  uint64_t limit = total_memory(root);
  each_cgroup(root, "memory", [&](const std::filesystem::path& folder, bool v2) {
    const uint64_t bytes = read_number(folder / (v2 ? "memory.max" : "memory.limit_in_bytes"));
    if (bytes > 0) limit = limit > 0 ? std::min(limit, bytes) : bytes;
  });
  return limit;
}

uint64_t kv_bytes_per_position(const Network& network) {
  uint64_t bytes = 0;
  for (const auto& block : network.blocks) {
    // Other mixers keep a state of one size, however long the sequence.
    const auto* attention = std::get_if<Attention>(&block.mixer);
    if (!attention) continue;
    bytes += 2ull * 2 * static_cast<uint64_t>(attention->kv_heads) * static_cast<uint64_t>(attention->head_dim);
  }
  return bytes;
}

Result<MemoryPlan> plan_memory(const Network& network, uint64_t budget, int context, uint64_t kv, uint64_t machine) {
  MemoryPlan plan;
  plan.budget = budget > 0 ? budget : machine / 10 * 9;
  plan.weights = weight_bytes(network);
  plan.context = context > 0 ? context : network.context_length;
  const uint64_t position = kv_bytes_per_position(network);
  // The pool hands out whole blocks of positions: a little more than one context makes room for the last one.
  const uint64_t one_context = position * (static_cast<uint64_t>(plan.context) + 64);
  const uint64_t left = plan.budget > plan.weights ? plan.budget - plan.weights : 0;
  const uint64_t needed = std::max(kv, one_context);
  if (plan.budget > 0 && needed > left) {
    const uint64_t fits = position > 0 ? left / position : 0;
    const auto advice = fits > 256 ? fmt::format("a context of {} would fit (--context)", (fits - 64) / 64 * 64)
                                   : std::string("use a smaller model or a larger --memory");
    return Error{
        ErrorKind::out_of_memory,
        fmt::format("the weights take {} MiB and a context of {} tokens {} MiB, the memory budget is {} MiB; {}",
                    plan.weights / kMiB, plan.context, needed / kMiB, plan.budget / kMiB, advice),
        "memory"};
  }
  plan.kv = kv > 0 ? kv : plan.budget > 0 ? std::min(4 * one_context, left) : one_context;
  return plan;
}

}  // namespace drafthorse
