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

// context 0 means the model's own, cut to what the budget holds; an explicit context must fit. A sequence takes blocks of
// positions and, with recurrent layers, a fixed number of blocks of recurrent state.
Result<KvPlan> plan_kv(const Network& network, const BackendOptions& options, const cpu::KvLayout& layout) {
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
  const int64_t block_bytes = std::max<int64_t>(int64_t(layout.block_bytes), 1), state = layout.recurrent.blocks;
  const int64_t wanted = layout.position_blocks(context) + state;
  if (options.kv_bytes == 0) return KvPlan{context, int(std::max<int64_t>(wanted, 1))};
  const uint64_t held = options.kv_bytes / uint64_t(block_bytes);
  const int64_t least = std::max<int64_t>(options.context > 0 ? wanted : layout.position_blocks(1) + state, 1);
  if (held < uint64_t(least)) {
    const int64_t positions = (least - state) * cpu::kKvBlock;
    const std::string recurrent = state > 0 ? fmt::format(" and {} of recurrent state", state) : "";
    return Error{
        ErrorKind::out_of_memory,
        fmt::format("a KV cache of {} positions needs {} bytes ({} blocks of {} positions{}), the budget is {}; "
                    "raise the budget or ask for a shorter context",
                    positions, uint64_t(least) * uint64_t(block_bytes), least - state, cpu::kKvBlock, recurrent,
                    options.kv_bytes),
        "kv_bytes"};
  }
  const int64_t blocks = int64_t(std::min<uint64_t>(held, std::numeric_limits<int>::max() / cpu::kKvBlock));
  if (layout.has_positions()) context = int(std::min<int64_t>(context, (blocks - state) * cpu::kKvBlock));
  return KvPlan{context, int(blocks)};
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
    Result<KvPlan> plan = plan_kv(network, options, *layout);
    if (!plan) return plan.error();
    return cpu::CpuModel::load(network, options, std::move(*layout), plan->blocks, plan->context, progress);
  }
  if (options.backend == "reference") return load_reference(network, options);
  return Error{ErrorKind::invalid_argument,
               fmt::format("unknown backend \"{}\"; this build has: auto, cpu, reference", options.backend), "backend"};
}

}  // namespace drafthorse
