#include "backend/cpu/moe.h"

#include <algorithm>

#include "backend/cpu/parallel.h"
#include "core/math.h"

namespace drafthorse::cpu {
namespace {

// Blocks of one task: about 128 KiB of weights, as in blocks_per_chunk.
int64_t blocks_per_task(int64_t blocks, int64_t block_bytes, int rows) {
  constexpr int64_t kBytes = 128 << 10;
  const int64_t cost = std::max<int64_t>(1, rows / 4);
  const int64_t by_cost = kBytes / std::max<int64_t>(1, block_bytes * cost);
  return std::clamp<int64_t>(by_cost, rows > 16 ? std::min<int64_t>(4, blocks) : 1, blocks);
}

auto activation_of(const RowKernels& kernels, Activation activation) {
  return activation == Activation::silu ? kernels.silu_times : kernels.gelu_times;
}

}  // namespace

void Mixture::make_room(const PackedNetwork& network, int rows) {
  if (rows <= capacity_) return;
  int64_t experts = 0, pairs = 0, inner = 0, outer = 0, shared_in = 0, shared_out = 0, tasks = 0, shared_tasks = 0;
  std::map<int64_t, ActivationKinds> gathered, inner_rows, shared_rows;
  for (const PackedBlock& block : network.blocks) {
    const auto* moe = std::get_if<PackedMoe>(&block.ffn);
    if (!moe) continue;
    const int64_t here = int64_t(rows) * moe->top_k;
    experts = std::max<int64_t>(experts, moe->experts), pairs = std::max(pairs, here);
    inner = std::max(inner, here * 2 * moe->inner), outer = std::max(outer, here * moe->gate_up.inputs);
    gathered[moe->gate_up.inputs].add(moe->gate_up.activations);
    inner_rows[moe->inner].add(moe->down.activations);
    tasks = std::max({tasks, moe->gate_up.blocks(), moe->down.blocks()});
    if (!moe->shared) continue;
    shared_in = std::max(shared_in, rows * moe->shared->gate.linear.outputs);
    shared_out = std::max(shared_out, rows * moe->gate_up.inputs);
    shared_rows[moe->shared->down.linear.inputs].add(moe->shared->down.linear.activations);
    shared_tasks = std::max({shared_tasks, moe->shared->gate.linear.blocks(), moe->shared->down.linear.blocks()});
  }
  bytes_ = 0, capacity_ = 0;
  auto room = [&](auto& v, int64_t n) {
    v.resize(size_t(n));
    bytes_ += v.size() * sizeof(v[0]);
  };
  room(router_, rows * experts), room(shared_gate_, rows), room(choices_, pairs), room(row_of_, pairs);
  room(first_, experts + 1), room(next_, experts);
  room(inner_, inner), room(outer_, outer), room(shared_in_, shared_in), room(shared_up_, shared_in);
  room(shared_out_, shared_out);
  tasks_.reserve(size_t(tasks + shared_tasks));
  auto activations = [&](std::map<int64_t, Activations>& to, const std::map<int64_t, ActivationKinds>& kinds,
                         int64_t n) {
    to.clear();
    for (const auto& [inputs, kind] : kinds) {
      bytes_ += to.emplace(inputs, Activations(inputs, int(n), kind)).first->second.bytes();
    }
  };
  activations(gathered_, gathered, pairs), activations(inner_rows_, inner_rows, pairs);
  activations(shared_rows_, shared_rows, rows);
  capacity_ = rows;
}

// The top_k largest logits of a row, the lower index first where equal, and their weights.
void Mixture::choose(const PackedMoe& layer, int row) {
  const float* logits = &router_[size_t(row) * layer.experts];
  Choice* best = &choices_[size_t(row) * layer.top_k];
  int kept = 0;
  for (int e = 0; e < layer.experts; ++e) {
    if (kept == layer.top_k && !(logits[e] > best[kept - 1].weight)) continue;
    int at = kept < layer.top_k ? kept++ : kept - 1;
    for (; at > 0 && logits[e] > best[at - 1].weight; --at) best[at] = best[at - 1];
    best[at].expert = e, best[at].weight = logits[e];
  }
  const float most = best[0].weight;
  float sum = 0;
  if (layer.normalised) {
    for (int r = 0; r < kept; ++r) sum += exp_fixed(best[r].weight - most);
  } else {
    for (int e = 0; e < layer.experts; ++e) sum += exp_fixed(logits[e] - most);
  }
  for (int r = 0; r < kept; ++r) best[r].weight = exp_fixed(best[r].weight - most) / sum;
}

void Mixture::group_by_expert(const PackedMoe& layer, int rows) {
  const int pairs = rows * layer.top_k;
  std::fill(first_.begin(), first_.end(), 0);
  for (int i = 0; i < pairs; ++i) ++first_[choices_[i].expert + 1];
  for (int e = 0; e < layer.experts; ++e) {
    first_[e + 1] += first_[e];
    next_[e] = first_[e];
  }
  for (int i = 0; i < pairs; ++i) {
    choices_[i].slot = next_[choices_[i].expert]++;
    row_of_[choices_[i].slot] = i / layer.top_k;
  }
}

void Mixture::plan(const PackedMoe& layer, int rows, int64_t blocks, int64_t bytes, int64_t shared_blocks,
                   int64_t shared_bytes) {
  tasks_.clear();
  auto add = [&](int expert, int64_t all, int64_t chunk) {
    for (int64_t b = 0; b < all; b += chunk) tasks_.push_back({expert, b, std::min(b + chunk, all)});
  };
  for (int e = 0; e < layer.experts; ++e) {
    const int here = first_[e + 1] - first_[e];
    if (here > 0) add(e, blocks, blocks_per_task(blocks, bytes, here));
  }
  if (layer.shared) add(-1, shared_blocks, blocks_per_task(shared_blocks, shared_bytes, rows));
}

// act(gate) * up for the rows of a chunk of outputs of the shared expert, at once after its products.
void Mixture::activate(const PackedMlp& shared, int rows, int64_t begin, int64_t end) {
  const int64_t inner = shared.gate.linear.outputs, first = begin * kBlockOutputs;
  const int n = int(std::min(end * kBlockOutputs, inner) - first);
  for (int r = 0; r < rows; ++r) {
    float* gate = &shared_in_[size_t(r) * inner + first];
    float* up = &shared_up_[size_t(r) * inner + first];
    if (!shared.gate.bias.empty()) row_kernels_.add(gate, &shared.gate.bias[first], n);
    if (!shared.up.bias.empty()) row_kernels_.add(up, &shared.up.bias[first], n);
    activation_of(row_kernels_, shared.activation)(gate, up, n);
  }
}

void Mixture::gate_and_up(const PackedMoe& layer, const Activations& x) {
  const int rows = x.rows();
  const int64_t inner = layer.inner, inner_blocks = inner / kBlockOutputs;
  // A single row is the input of every expert it goes to.
  Activations& gathered = gathered_.at(x.inputs());
  if (rows > 1) {
    gathered.resize(rows * layer.top_k);
    for_rows(pool_, gathered.rows(), x.inputs(), [&](int slot) { copy_row(gathered, slot, x, row_of_[slot]); });
  }
  const PackedLinear* shared = layer.shared ? &layer.shared->gate.linear : nullptr;
  plan(layer, rows, inner_blocks, 2 * layer.gate_up.block_bytes, shared ? shared->blocks() : 0,
       shared ? 2 * shared->block_bytes : 0);
  const auto act = activation_of(row_kernels_, layer.activation);
  auto run = [&](const Task& task) {
    if (task.expert < 0) {
      const int64_t width = shared->outputs;
      matmul(kernels_, *shared, x, 0, rows, shared_in_.data(), width, task.begin, task.end);
      matmul(kernels_, layer.shared->up.linear, x, 0, rows, shared_up_.data(), width, task.begin, task.end);
      return activate(*layer.shared, rows, task.begin, task.end);
    }
    const int first = first_[task.expert], count = slots(task);
    // Outputs count from the first expert's on: y is moved so that those of this one land in its slots.
    float* y = inner_.data() + (first - task.expert) * 2 * inner;
    const int64_t gate = task.expert * 2 * inner_blocks, up = gate + inner_blocks;
    for (int64_t half : {gate, up}) {
      matmul(kernels_, layer.gate_up, rows > 1 ? gathered : x, rows > 1 ? first : 0, rows > 1 ? first + count : 1, y,
             2 * inner, half + task.begin, half + task.end);
    }
    for (int slot = first; slot < first + count; ++slot) {
      float* out = &inner_[size_t(slot) * 2 * inner + task.begin * kBlockOutputs];
      act(out, out + inner, int((task.end - task.begin) * kBlockOutputs));
    }
  };
  pool_.parallel_for(int64_t(tasks_.size()), 1, [&](int, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) run(tasks_[t]);
  });
}

void Mixture::quantise(const PackedMoe& layer, int rows) {
  Activations& inner_rows = inner_rows_.at(layer.inner);
  const int all = rows * layer.top_k;
  inner_rows.resize(all);
  Activations* shared_rows = nullptr;
  int64_t width = 0;
  if (layer.shared) {
    width = layer.shared->down.linear.inputs;
    shared_rows = &shared_rows_.at(width);
    shared_rows->resize(rows);
  }
  for_rows(pool_, all + (layer.shared ? rows : 0), std::max(layer.inner, width), [&](int r) {
    if (r < all) return inner_rows.set_row(kernels_, r, &inner_[size_t(r) * 2 * layer.inner]);
    shared_rows->set_row(kernels_, r - all, &shared_in_[size_t(r - all) * width]);
  });
}

void Mixture::down(const PackedMoe& layer, int rows) {
  const int64_t hidden = layer.gate_up.inputs, blocks = hidden / kBlockOutputs;
  const Activations& inner_rows = inner_rows_.at(layer.inner);
  const PackedLinear* shared = layer.shared ? &layer.shared->down.linear : nullptr;
  plan(layer, rows, blocks, layer.down.block_bytes, shared ? shared->blocks() : 0, shared ? shared->block_bytes : 0);
  auto run = [&](const Task& task) {
    if (task.expert < 0) {
      matmul(kernels_, *shared, shared_rows_.at(shared->inputs), 0, rows, shared_out_.data(), hidden, task.begin,
             task.end);
      return;
    }
    const int first = first_[task.expert];
    float* y = outer_.data() + (first - task.expert) * hidden;
    matmul(kernels_, layer.down, inner_rows, first, first + slots(task), y, hidden, task.expert * blocks + task.begin,
           task.expert * blocks + task.end);
  };
  pool_.parallel_for(int64_t(tasks_.size()), 1, [&](int, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) run(tasks_[t]);
  });
}

void Mixture::run(const PackedMoe& layer, const Activations& x) {
  const int rows = x.rows();
  MatmulJob jobs[2] = {{&layer.router.linear, router_.data(), layer.experts}, {}};
  if (layer.shared_gate) jobs[1] = {&layer.shared_gate->linear, shared_gate_.data(), 1};
  multiply(kernels_, pool_, std::span(jobs, layer.shared_gate ? 2 : 1), x);
  for_rows(pool_, rows, 4 * layer.experts, [&](int r) {
    if (!layer.router.bias.empty()) {
      row_kernels_.add(&router_[size_t(r) * layer.experts], layer.router.bias.data(), layer.experts);
    }
    choose(layer, r);
  });
  group_by_expert(layer, rows);
  gate_and_up(layer, x);
  quantise(layer, rows);
  down(layer, rows);
}

void Mixture::combine(const PackedMoe& layer, int row, float* y) {
  const int64_t hidden = layer.gate_up.inputs;
  std::fill(y, y + hidden, 0.0f);
  for (int rank = 0; rank < layer.top_k; ++rank) {
    const Choice& choice = choices_[size_t(row) * layer.top_k + rank];
    row_kernels_.add_scaled(y, &outer_[size_t(choice.slot) * hidden], choice.weight, int(hidden));
  }
  if (!layer.shared) return;
  float* shared = &shared_out_[size_t(row) * hidden];
  const std::vector<float>& bias = layer.shared->down.bias;
  if (!bias.empty()) row_kernels_.add(shared, bias.data(), int(hidden));
  if (!layer.shared_gate) return row_kernels_.add(y, shared, int(hidden));
  float gate = shared_gate_[row];
  if (!layer.shared_gate->bias.empty()) gate += layer.shared_gate->bias[0];
  row_kernels_.add_scaled(y, shared, sigmoid_fixed(gate), int(hidden));
}

}  // namespace drafthorse::cpu
