#include "backend/cpu/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "backend/rope.h"
#include "core/topology.h"

namespace drafthorse::cpu {
namespace {

// Work on rows smaller than this many elements is done by one thread: a region costs more.
constexpr int64_t kSerialElements = 1 << 14;

int worker_count(const BackendOptions& options) {
  return options.threads > 0 ? options.threads : read_cpu_limits().workers();
}

}  // namespace

CpuModel::CpuModel(const Network& network, const BackendOptions& options, const Kernels& kernels,
                   const RowKernels& rows)
    : checkpoint_(network.checkpoint),
      embedding_(network.embedding),
      embedding_scale_(network.embedding_scale),
      logit_softcap_(network.logit_softcap),
      hidden_(network.hidden),
      vocab_(network.vocab),
      kernels_(kernels),
      row_kernels_(rows),
      pool_(worker_count(options)) {}

Result<std::unique_ptr<Model>> CpuModel::load(const Network& network, const BackendOptions& options, KvLayout layout,
                                              int kv_blocks, int context, const Progress& progress) {
  Result<const Kernels*> kernels = select_kernels(options.isa);
  if (!kernels) return kernels.error();
  const RowKernels* rows = row_kernels(isa_name(**kernels));
  if (!rows) rows = row_kernels("portable");  // same bits, for a set that has matrix products only
  std::unique_ptr<CpuModel> model(new CpuModel(network, options, **kernels, *rows));
  Result<std::shared_ptr<KvPool>> kv = KvPool::create(std::move(layout), kv_blocks);
  if (!kv) return kv.error();
  model->kv_ = std::move(*kv);
  model->context_ = context;
  std::vector<float> row(network.embedding.columns());
  if (Status status = dequantise(network.embedding, 0, 1, row); !status) return status.error();
  Result<PackedNetwork> packed = pack_network(network, model->pool_, progress);
  if (!packed) return packed.error();
  model->network_ = std::move(*packed);
  model->attend_ = std::make_unique<Attend>(*rows, model->pool_, *model->kv_);
  model->make_buffers(1);
  return std::unique_ptr<Model>(std::move(model));
}

std::string CpuModel::description() const {
  return fmt::format("cpu {}, {} thread{}", isa_name(kernels_), pool_.workers(), pool_.workers() == 1 ? "" : "s");
}

std::vector<MemoryPart> CpuModel::memory() const {
  const uint64_t floats = head_rows_.capacity() + logits_.capacity();
  return {{"weights", network_.bytes},
          {"kv", kv_->bytes()},
          {"buffers", buffers_.bytes + attend_->bytes() + floats * sizeof(float)}};
}

Status CpuModel::reserve(State& state, int positions) {
  KvState& kv = static_cast<KvState&>(state);
  if (positions < 0 || positions > context_ - kv.length()) {
    return Error{ErrorKind::context_length,
                 fmt::format("{} more positions after {} exceed the context of {}", positions, kv.length(), context_),
                 ""};
  }
  if (kv.reserve(positions)) return {};
  return Error{ErrorKind::out_of_memory,
               fmt::format("{} more positions need {} KV blocks of {} positions, {} of {} are free", positions,
                           kv.missing_blocks(positions), kKvBlock, kv_->free_blocks(), kv_->blocks()),
               ""};
}

void CpuModel::make_buffers(int rows) {
  if (rows <= buffers_.capacity) return;
  const int capacity = std::min(int(std::bit_ceil(unsigned(rows))), kMaxRows);
  Buffers b;
  b.capacity = capacity;
  int64_t queries = 0, keys = 0, inner = 0;
  std::map<int64_t, ActivationKinds> kinds;
  auto wants = [&](const PackedLayer& layer) { kinds[layer.linear.inputs].add(layer.linear.activations); };
  for (const PackedBlock& block : network_.blocks) {
    const PackedAttention& a = block.attention;
    queries = std::max<int64_t>(queries, int64_t(a.heads) * a.head_dim);
    keys = std::max<int64_t>(keys, int64_t(a.kv_heads) * a.head_dim);
    inner = std::max(inner, block.mlp.gate.linear.outputs);
    for (const PackedLayer* layer : {&a.q, &a.k, &a.v, &a.o, &block.mlp.gate, &block.mlp.up, &block.mlp.down}) {
      wants(*layer);
    }
  }
  wants(network_.head);
  auto floats = [&](std::vector<float>& v, int64_t width) {
    v.resize(size_t(capacity) * width);
    b.bytes += v.size() * sizeof(float);
  };
  floats(b.x, hidden_), floats(b.y, std::max<int64_t>(hidden_, queries));
  floats(b.q, queries), floats(b.k, keys), floats(b.v, keys), floats(b.attended, queries);
  floats(b.gate, inner), floats(b.up, inner);
  b.cos.resize(network_.ropes.size()), b.sin.resize(network_.ropes.size());
  for (size_t i = 0; i < network_.ropes.size(); ++i) {
    floats(b.cos[i], network_.ropes[i].dims / 2), floats(b.sin[i], network_.ropes[i].dims / 2);
  }
  for (const auto& [inputs, kind] : kinds) {
    b.bytes += b.activations.emplace(inputs, Activations(inputs, capacity, kind)).first->second.bytes();
  }
  buffers_ = std::move(b);
}

RunOutput CpuModel::run(std::span<const BatchItem> batch, const std::function<bool()>& cancelled) {
  std::vector<Row> rows;
  std::vector<SequenceRows> sequences;  // whole batch; cut into pieces below
  int asked = 0;
  for (const BatchItem& item : batch) {
    const KvState& state = static_cast<const KvState&>(*item.state);
    const int n = int(item.tokens.size());
    if (n == 0 || n > context_ - state.length())
      throw std::logic_error("run: a sequence without tokens or past the context");
    sequences.push_back({&state, state.length(), int(rows.size()), n});
    for (int i = 0; i < n; ++i) {
      if (item.tokens[i] < 0 || item.tokens[i] >= vocab_)
        throw std::logic_error("run: token id outside the vocabulary");
      const bool logits = item.logits == LogitRows::all || (item.logits == LogitRows::last && i == n - 1);
      asked += logits;
      rows.push_back({item.tokens[i], state.length() + i, logits});
    }
  }
  // Everything that may fail comes before the first state is touched.
  make_buffers(std::min(int(rows.size()), kMaxRows));
  if (logits_.size() < size_t(asked) * vocab_) logits_.resize(size_t(asked) * vocab_);
  if (head_rows_.size() < size_t(std::min(asked, kMaxRows)) * hidden_) {
    head_rows_.resize(size_t(std::min(asked, kMaxRows)) * hidden_);
  }
  auto shrink = [&] {
    for (const BatchItem& item : batch) static_cast<KvState&>(*item.state).shrink();
  };
  for (const BatchItem& item : batch) {
    if (static_cast<KvState&>(*item.state).grow(int(item.tokens.size()))) continue;
    shrink();
    throw std::logic_error("run: the KV pool is full; reserve() tells before");
  }

  int done_logits = 0;
  std::vector<SequenceRows> part;
  for (int begin = 0; begin < int(rows.size()); begin += kMaxRows) {
    const int end = std::min(int(rows.size()), begin + kMaxRows);
    part.clear();
    for (const SequenceRows& s : sequences) {
      const int from = std::max(s.first_row, begin), to = std::min(s.first_row + s.rows, end);
      if (from < to) part.push_back({s.state, s.first_position + from - s.first_row, from - begin, to - from});
    }
    const std::span<const Row> here(rows.data() + begin, size_t(end - begin));
    if (!piece(here, part, logits_.data() + size_t(done_logits) * vocab_, cancelled)) {
      shrink();
      RunOutput out;
      out.stopped = true;
      return out;
    }
    done_logits += int(std::count_if(here.begin(), here.end(), [](const Row& row) { return row.logits; }));
  }
  for (const BatchItem& item : batch) static_cast<KvState&>(*item.state).extend(int(item.tokens.size()));
  return {std::span<const float>(logits_.data(), size_t(asked) * vocab_), asked};
}

template <class Function>
void CpuModel::for_rows(int rows, int64_t width, Function&& fn) {
  if (pool_.workers() == 1 || rows * width <= kSerialElements) {
    for (int r = 0; r < rows; ++r) fn(r);
    return;
  }
  const int64_t chunk = std::max<int64_t>(1, rows / (4 * pool_.workers()));
  pool_.parallel_for(rows, chunk, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) fn(int(r));
  });
}

void CpuModel::multiply(std::span<const MatmulJob> jobs, const Activations& activations) {
  const int rows = activations.rows();
  pool_.parallel_for(blocks(jobs), blocks_per_chunk(jobs, rows, pool_.workers()), [&](int, int64_t begin, int64_t end) {
    matmul(kernels_, jobs, activations, 0, rows, begin, end);
  });
}

// One pass of at most kMaxRows rows. False when cancelled. logits: [rows that ask, vocab].
bool CpuModel::piece(std::span<const Row> rows, std::span<const SequenceRows> sequences, float* logits,
                     const std::function<bool()>& cancelled) {
  const int n = int(rows.size());
  for (auto& [inputs, activations] : buffers_.activations) activations.resize(n);
  embed(rows);
  for (int layer = 0; layer < int(network_.blocks.size()); ++layer) {
    if (cancelled && cancelled()) return false;
    mixer(layer, rows, sequences);
    ffn(layer, n);
  }
  head(rows, logits);
  return true;
}

// The embeddings, and the first block's normed input.
void CpuModel::embed(std::span<const Row> rows) {
  for_rows(int(rows.size()), hidden_, [&](int r) {
    float* x = &buffers_.x[size_t(r) * hidden_];
    // The format was tried at load and the token checked in run.
    (void)dequantise(embedding_, rows[r].token, 1, std::span<float>(x, size_t(hidden_))).ok();
    if (embedding_scale_ != 1.0f) row_kernels_.multiply(x, embedding_scale_, hidden_);
    for (size_t i = 0; i < network_.ropes.size(); ++i) {
      const int half = network_.ropes[i].dims / 2;
      rope_row(network_.ropes[i], rows[r].position, &buffers_.cos[i][size_t(r) * half],
               &buffers_.sin[i][size_t(r) * half]);
    }
    if (!network_.blocks.empty()) norm_and_quantise(network_.blocks[0].before_mixer, r);
  });
}

void CpuModel::norm_and_quantise(const PackedNorm& norm, int row) {
  float* y = &buffers_.y[size_t(row) * hidden_];
  row_kernels_.rms_norm(&buffers_.x[size_t(row) * hidden_], norm.weight.data(), norm.eps, hidden_, y);
  activations(hidden_).set_row(kernels_, row, y);
}

// x += norm(y + bias)
void CpuModel::add_result(const PackedLayer& layer, const std::optional<PackedNorm>& after, int row) {
  float* y = &buffers_.y[size_t(row) * hidden_];
  if (!layer.bias.empty()) row_kernels_.add(y, layer.bias.data(), hidden_);
  if (after) row_kernels_.rms_norm(y, after->weight.data(), after->eps, hidden_, y);
  row_kernels_.add(&buffers_.x[size_t(row) * hidden_], y, hidden_);
}

void CpuModel::mixer(int layer, std::span<const Row> rows, std::span<const SequenceRows> sequences) {
  const PackedBlock& block = network_.blocks[layer];
  const PackedAttention& a = block.attention;
  Buffers& b = buffers_;
  const int n = int(rows.size());
  const int64_t queries = int64_t(a.heads) * a.head_dim, keys = int64_t(a.kv_heads) * a.head_dim;
  const MatmulJob qkv[] = {
      {&a.q.linear, b.q.data(), queries}, {&a.k.linear, b.k.data(), keys}, {&a.v.linear, b.v.data(), keys}};
  multiply(qkv, activations(hidden_));
  for (const SequenceRows& s : sequences) {
    for_rows(s.rows, queries + 2 * keys,
             [&](int r) { place_row(layer, a, rows[s.first_row + r], s.first_row + r, *s.state); });
  }
  attend_->run(layer, {a.heads, a.kv_heads, a.head_dim, a.window, a.softcap}, sequences, b.q.data(), b.attended.data());
  for_rows(n, queries, [&](int r) { activations(queries).set_row(kernels_, r, &b.attended[size_t(r) * queries]); });
  const MatmulJob o[] = {{&a.o.linear, b.y.data(), hidden_}};
  multiply(o, activations(queries));
  // The quantised hidden rows of q, k, v are not needed any more: those of the feed-forward take their place.
  for_rows(n, hidden_, [&](int r) {
    add_result(a.o, block.after_mixer, r);
    norm_and_quantise(block.before_ffn, r);
  });
}

// Biases, norms, rope and scale of one row's q and k; k and v go into the cache.
void CpuModel::place_row(int layer, const PackedAttention& a, const Row& row, int r, const KvState& state) {
  Buffers& b = buffers_;
  const int d = a.head_dim;
  float* q = &b.q[size_t(r) * a.heads * d];
  float* k = &b.k[size_t(r) * a.kv_heads * d];
  float* v = &b.v[size_t(r) * a.kv_heads * d];
  if (!a.q.bias.empty()) row_kernels_.add(q, a.q.bias.data(), a.heads * d);
  if (!a.k.bias.empty()) row_kernels_.add(k, a.k.bias.data(), a.kv_heads * d);
  if (!a.v.bias.empty()) row_kernels_.add(v, a.v.bias.data(), a.kv_heads * d);
  const Rope& rope = network_.ropes[a.rope];
  const float* cos = b.cos[a.rope].data() + size_t(r) * (rope.dims / 2);
  const float* sin = b.sin[a.rope].data() + size_t(r) * (rope.dims / 2);
  const auto rotate = rope.interleaved ? row_kernels_.rope_interleaved : row_kernels_.rope_half;
  for (int h = 0; h < a.heads; ++h) {
    if (a.q_norm) row_kernels_.rms_norm(q + h * d, a.q_norm->weight.data(), a.q_norm->eps, d, q + h * d);
    rotate(q + h * d, cos, sin, rope.dims);
  }
  row_kernels_.multiply(q, a.scale, a.heads * d);
  const int block = state.blocks()[row.position / kKvBlock], slot = row.position % kKvBlock;
  for (int h = 0; h < a.kv_heads; ++h) {
    if (a.k_norm) row_kernels_.rms_norm(k + h * d, a.k_norm->weight.data(), a.k_norm->eps, d, k + h * d);
    rotate(k + h * d, cos, sin, rope.dims);
    row_kernels_.to_half(k + h * d, d, kKvBlock, kv_->keys(block, layer, h) + slot);
    row_kernels_.to_half(v + h * d, d, 1, kv_->values(block, layer, h) + size_t(slot) * d);
  }
}

// gate = act(gate x) * (up x). A chunk is the same outputs of both matrices, so that its activation follows at once.
void CpuModel::gate_and_up(const PackedMlp& mlp, int rows) {
  Buffers& b = buffers_;
  const int64_t inner = mlp.gate.linear.outputs;
  const Activations& x = activations(hidden_);
  const MatmulJob both[] = {{&mlp.gate.linear, b.gate.data(), inner}, {&mlp.up.linear, b.up.data(), inner}};
  const auto act = mlp.activation == Activation::silu ? row_kernels_.silu_times : row_kernels_.gelu_times;
  const int64_t chunk = std::max<int64_t>(1, blocks_per_chunk(both, rows, pool_.workers()) / 2);
  pool_.parallel_for(mlp.gate.linear.blocks(), chunk, [&](int, int64_t begin, int64_t end) {
    for (const MatmulJob& job : both) {
      matmul(kernels_, *job.linear, x, 0, rows, job.y, inner, begin, end);
    }
    const int64_t first = begin * kBlockOutputs;
    const int n = int(std::min(end * kBlockOutputs, inner) - first);
    for (int r = 0; r < rows; ++r) {
      float* gate = &b.gate[size_t(r) * inner + first];
      float* up = &b.up[size_t(r) * inner + first];
      if (!mlp.gate.bias.empty()) row_kernels_.add(gate, &mlp.gate.bias[first], n);
      if (!mlp.up.bias.empty()) row_kernels_.add(up, &mlp.up.bias[first], n);
      act(gate, up, n);
    }
  });
}

void CpuModel::ffn(int layer, int rows) {
  const PackedBlock& block = network_.blocks[layer];
  const PackedMlp& mlp = block.mlp;
  Buffers& b = buffers_;
  const int64_t inner = mlp.gate.linear.outputs;
  gate_and_up(mlp, rows);
  for_rows(rows, inner, [&](int r) { activations(inner).set_row(kernels_, r, &b.gate[size_t(r) * inner]); });
  const MatmulJob down[] = {{&mlp.down.linear, b.y.data(), hidden_}};
  multiply(down, activations(inner));
  const bool last = layer + 1 == int(network_.blocks.size());
  for_rows(rows, hidden_, [&](int r) {
    add_result(mlp.down, block.after_ffn, r);
    if (!last) norm_and_quantise(network_.blocks[layer + 1].before_mixer, r);
  });
}

// Final norm and head of the rows that ask for logits.
void CpuModel::head(std::span<const Row> rows, float* logits) {
  std::vector<int> asked;
  for (int r = 0; r < int(rows.size()); ++r) {
    if (rows[r].logits) asked.push_back(r);
  }
  if (asked.empty()) return;
  Activations& inputs = activations(hidden_);
  inputs.resize(int(asked.size()));
  for_rows(int(asked.size()), hidden_, [&](int i) {
    float* y = &head_rows_[size_t(i) * hidden_];
    row_kernels_.rms_norm(&buffers_.x[size_t(asked[i]) * hidden_], network_.final_norm.weight.data(),
                          network_.final_norm.eps, hidden_, y);
    inputs.set_row(kernels_, i, y);
  });
  const MatmulJob job[] = {{&network_.head.linear, logits, vocab_}};
  multiply(job, inputs);
  if (network_.head.bias.empty() && logit_softcap_ == 0) return;
  for_rows(int(asked.size()), vocab_, [&](int i) {
    float* row = logits + size_t(i) * vocab_;
    if (!network_.head.bias.empty()) row_kernels_.add(row, network_.head.bias.data(), vocab_);
    if (logit_softcap_ > 0) row_kernels_.softcap(row, logit_softcap_, vocab_);
  });
}

}  // namespace drafthorse::cpu
