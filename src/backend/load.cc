// Which backend runs a network, and how much context and KV memory it gets.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backend/backend.h"
#include "backend/cpu/model.h"
#include "backend/reference/model.h"

namespace drafthorse {
namespace {

struct KvPlan {
  int context = 0, blocks = 0;
};

// context 0 means the model's own, cut to what the budget holds; an explicit context must fit.
Result<KvPlan> plan_kv(const Network& network, const BackendOptions& options, size_t block_bytes) {
  const int own = network.context_length;
  if (options.context < 0 || (own > 0 && options.context > own)) {
    return Error{ErrorKind::invalid_argument,
                 fmt::format("a context of {} was asked for, but the model was made for {} positions; ask for 1 to {}",
                             options.context, own, own),
                 "context"};
  }
  int context = options.context > 0 ? options.context : own;
  if (context <= 0) {
    return Error{ErrorKind::invalid_argument, "the model does not say how long its context is; set a context",
                 "context"};
  }
  const int64_t wanted = (int64_t(context) + cpu::kKvBlock - 1) / cpu::kKvBlock;
  if (options.kv_bytes == 0) return KvPlan{context, int(wanted)};
  const uint64_t held = options.kv_bytes / block_bytes;
  if (held < 1 || (options.context > 0 && held < uint64_t(wanted))) {
    const int64_t needed = options.context > 0 ? wanted : 1;
    return Error{
        ErrorKind::out_of_memory,
        fmt::format("a KV cache of {} positions needs {} bytes ({} blocks of {} positions), the budget is {}; "
                    "raise the budget or ask for a shorter context",
                    needed * cpu::kKvBlock, uint64_t(needed) * block_bytes, needed, cpu::kKvBlock, options.kv_bytes),
        "kv_bytes"};
  }
  const int blocks = int(std::min<uint64_t>(held, std::numeric_limits<int>::max() / cpu::kKvBlock));
  return KvPlan{int(std::min<int64_t>(context, int64_t(blocks) * cpu::kKvBlock)), blocks};
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load_companion(const Network& network) {
  return Error{ErrorKind::unsupported, fmt::format("{} runs no drafting head ({})", description(), network.family), ""};
}

Result<std::unique_ptr<Model>> load_model(const Network& network, const BackendOptions& options,
                                          const Progress& progress) {
  if (options.backend == "auto" || options.backend == "cpu") {
    Result<cpu::KvLayout> layout = cpu::kv_layout(network);
    if (!layout) return layout.error();
    Result<KvPlan> plan = plan_kv(network, options, std::max<size_t>(layout->block_bytes, 1));
    if (!plan) return plan.error();
    return cpu::CpuModel::load(network, options, std::move(*layout), plan->blocks, plan->context, progress);
  }
  if (options.backend == "reference") return load_reference(network, options);
  return Error{ErrorKind::invalid_argument,
               fmt::format("unknown backend \"{}\"; this build has: auto, cpu, reference", options.backend), "backend"};
}

}  // namespace drafthorse
