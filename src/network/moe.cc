// The experts of a mixture, in the layouts that Hugging Face, MLX and GGUF have.

#include <algorithm>

#include <fmt/format.h>

#include "network/hybrid_blocks.h"

namespace drafthorse {
namespace {

// Whole names after the block's prefix. A layout's gate and up may be one tensor, gate_up, with the gate's rows first.
struct ExpertNames {
  std::string_view gate, up, gate_up, down;
};

constexpr ExpertNames kStacks[] = {
    {"mlp.experts.gate_proj", "mlp.experts.up_proj", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"},
    {"mlp.experts.gate_proj.weight", "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj.weight",
     "mlp.experts.down_proj.weight"},
    {"mlp.switch_mlp.gate_proj.weight", "mlp.switch_mlp.up_proj.weight", "mlp.switch_mlp.gate_up_proj.weight",
     "mlp.switch_mlp.down_proj.weight"},
    {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_gate_up_exps.weight", "ffn_down_exps.weight"},
};

std::vector<Mlp> read_stacks(TensorSource& source, const std::string& prefix, const ExpertNames& names,
                             const MoeSizes& sizes, int64_t hidden) {
  const auto named = [&](std::string_view name) { return prefix + std::string(name); };
  const int64_t count = sizes.experts, size = sizes.intermediate;
  std::vector<TensorView> gate_up, gate, up;
  // Fused where the file has it, and where it has neither half.
  const bool split = source.has(named(names.gate)) || source.has(named(names.up));
  if (!split || source.has(named(names.gate_up))) {
    gate_up = source.stack(named(names.gate_up), count, 2 * size, hidden);
  } else {
    gate = source.stack(named(names.gate), count, size, hidden);
    up = source.stack(named(names.up), count, size, hidden);
  }
  const std::vector<TensorView> down = source.stack(named(names.down), count, hidden, size);
  std::vector<Mlp> experts;
  for (size_t i = 0; i < down.size() && source.ok(); ++i) {
    Mlp& expert = experts.emplace_back();
    expert.gate.weight = gate_up.empty() ? gate[i] : source.rows(gate_up[i], 0, size);
    expert.up.weight = gate_up.empty() ? up[i] : source.rows(gate_up[i], size, size);
    expert.down.weight = down[i];
  }
  return experts;
}

bool same_format(const TensorView& a, const TensorView& b) {
  return a.format == b.format && a.bits == b.bits && a.group_size == b.group_size && a.scale_format == b.scale_format;
}

// mlp.experts.7.gate_proj.weight and so on.
std::vector<Mlp> read_one_by_one(TensorSource& source, const std::string& prefix, const MoeSizes& sizes,
                                 int64_t hidden) {
  const int64_t size = sizes.intermediate;
  std::vector<Mlp> experts;
  for (int i = 0; i < sizes.experts && source.ok(); ++i) {
    const auto named = [&](const char* name) { return fmt::format("{}mlp.experts.{}.{}.weight", prefix, i, name); };
    Mlp expert;
    expert.gate.weight = source.matrix(named("gate_proj"), size, hidden);
    expert.up.weight = source.matrix(named("up_proj"), size, hidden);
    expert.down.weight = source.matrix(named("down_proj"), hidden, size);
    for (Linear Mlp::*part : {&Mlp::gate, &Mlp::up, &Mlp::down}) {
      if (experts.empty() || !source.ok()) continue;
      const TensorView &mine = (expert.*part).weight, &first = (experts.front().*part).weight;
      if (same_format(mine, first)) continue;
      source.fail(ErrorKind::unsupported,
                  fmt::format("tensor \"{}\": expected {} like the first expert's, found {} of other bits or groups; "
                              "the experts of a block must be stored alike",
                              mine.name, name(first.format), name(mine.format)));
    }
    experts.push_back(std::move(expert));
  }
  return experts;
}

}  // namespace

std::vector<Mlp> read_experts(TensorSource& source, const std::string& prefix, const MoeSizes& sizes, int64_t hidden) {
  const auto has = [&](std::string_view name) { return source.has(prefix + std::string(name)); };
  for (const ExpertNames& names : kStacks) {
    if (has(names.gate_up) || has(names.gate) || has(names.up) || has(names.down)) {
      return read_stacks(source, prefix, names, sizes, hidden);
    }
  }
  if (has("mlp.experts.0.gate_proj.weight") || has("mlp.experts.0.down_proj.weight")) {
    return read_one_by_one(source, prefix, sizes, hidden);
  }
  // None is there: the error names what the container's own layout would have.
  const bool gguf = source.checkpoint().kind() == Checkpoint::Kind::gguf;
  return read_stacks(source, prefix, gguf ? kStacks[3] : kStacks[0], sizes, hidden);
}

}  // namespace drafthorse
