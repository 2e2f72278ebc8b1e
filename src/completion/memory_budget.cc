#include "completion/memory_budget.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "backend/backend.h"
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
  if (root != "/") return 0;
  // Systems without /proc/meminfo.
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

uint64_t weight_bytes(const Network& network) {
  uint64_t bytes = 0;
  for (const auto& tensor : network.checkpoint->tensors()) bytes += tensor.bytes();
  // A drafting head from a file of its own.
  if (network.mtp && network.mtp->checkpoint != network.checkpoint) {
    for (const auto& tensor : network.mtp->checkpoint->tensors()) bytes += tensor.bytes();
  }
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
  const Result<SequenceBytes> bytes = sequence_bytes(network);
  return bytes ? bytes->position : 0;
}

Result<MemoryPlan> plan_memory(const Network& network, uint64_t budget, int context, uint64_t kv, uint64_t machine) {
  MemoryPlan plan;
  plan.budget = budget > 0 ? budget : machine / 10 * 9;
  plan.weights = weight_bytes(network);
  plan.context = context > 0 ? context : network.context_length;
  const Result<SequenceBytes> model = sequence_bytes(network);
  if (!model) return model.error();
  SequenceBytes head;
  if (network.mtp) {
    const Result<SequenceBytes> bytes = sequence_bytes(*network.mtp);
    if (!bytes) return bytes.error();
    head = *bytes;
  }
  const uint64_t position = model->position + head.position;
  // The pool hands out whole blocks of positions: a little more than one context makes room for the last one.
  const uint64_t one_context = position * (static_cast<uint64_t>(plan.context) + 64) + model->fixed;
  const uint64_t left = plan.budget > plan.weights ? plan.budget - plan.weights : 0;
  const uint64_t needed = std::max(kv, one_context);
  if (plan.budget > 0 && needed > left) {
    const uint64_t fits = position > 0 && left > model->fixed ? (left - model->fixed) / position : 0;
    const auto advice = fits > 256 ? fmt::format("a context of {} would fit (--context)", (fits - 64) / 64 * 64)
                                   : std::string("use a smaller model or a larger --memory");
    return Error{
        ErrorKind::out_of_memory,
        fmt::format("the weights take {} MiB and a context of {} tokens {} MiB, the memory budget is {} MiB; {}",
                    plan.weights / kMiB, plan.context, needed / kMiB, plan.budget / kMiB, advice),
        "memory"};
  }
  const uint64_t wanted = kv > 0            ? kv
                          : plan.budget > 0 ? std::min(4 * one_context + 4 * model->fixed, left)
                                            : one_context;
  const double share = position > 0 ? static_cast<double>(model->position) / static_cast<double>(position) : 1.0;
  plan.kv = head.position > 0 && kv == 0 ? static_cast<uint64_t>(static_cast<double>(wanted) * share) : wanted;
  return plan;
}

}  // namespace drafthorse
