// One pass of at most kMaxRows rows through the blocks.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "backend/cpu/model.h"
#include "backend/cpu/parallel.h"
#include "backend/rope.h"

namespace drafthorse::cpu {

template <class Function>
void CpuModel::for_rows(int rows, int64_t width, Function&& fn) {
  cpu::for_rows(*pool_, rows, width, fn);
}

template <class Function>
void CpuModel::timed(Part part, Function&& fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  seconds_[int(part)] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void CpuModel::multiply(std::span<const MatmulJob> jobs, const Activations& activations) {
  cpu::multiply(kernels_, *pool_, jobs, activations);
}

void CpuModel::set_rows(int rows) {
  for (auto& [inputs, activations] : buffers_.activations) activations.resize(rows);
}

// False when cancelled; run has asked before the first block.
bool CpuModel::run_piece(Piece& piece, int columns, const std::function<bool()>& cancelled) {
  set_rows(piece.size());
  embed(piece);
  for (int layer = 0; layer < int(network_.blocks.size()); ++layer) {
    if (layer > 0 && cancelled && cancelled()) return false;
    const PackedBlock& block = network_.blocks[layer];
    const bool attends = std::holds_alternative<PackedAttention>(block.mixer);
    timed(attends ? Part::attention : Part::delta, [&] { mixer(layer, piece); });
    if (piece.rows.empty()) return true;
    const bool dense = std::holds_alternative<PackedMlp>(block.ffn);
    timed(dense ? Part::mlp : Part::experts, [&] { ffn(layer, piece.size()); });
  }
  outputs(piece);
  timed(Part::head, [&] { head(piece, columns); });
  return true;
}

// The embeddings, joined with the hidden vectors of a drafting head, and the first block's normed input.
void CpuModel::embed(const Piece& piece) {
  for_rows(piece.size(), hidden_, [&](int r) {
    const Row& row = piece.rows[r];
    float* x = &buffers_.x[size_t(r) * hidden_];
    // The format was tried at load and the token checked in run.
    (void)dequantise(embedding_, row.token, 1, std::span<float>(x, size_t(hidden_))).ok();
    if (embedding_scale_ != 1.0f) row_kernels_.multiply(x, embedding_scale_, hidden_);
    for (size_t i = 0; i < network_.ropes.size(); ++i) {
      const int half = network_.ropes[i].dims / 2;
      rope_row(network_.ropes[i], row.position, &buffers_.cos[i][size_t(r) * half], &buffers_.sin[i][size_t(r) * half]);
    }
    if (!network_.joined_input && !network_.blocks.empty()) norm_and_quantise(network_.blocks[0].before_mixer, r);
  });
  if (network_.joined_input) join(piece);
}

// x = fc([norm(x) | norm(h)])
void CpuModel::join(const Piece& piece) {
  const PackedJoinedInput& input = *network_.joined_input;
  Activations& both = activations(2 * int64_t(hidden_));
  for_rows(piece.size(), 2 * hidden_, [&](int r) {
    float* row = &buffers_.joined[size_t(r) * 2 * hidden_];
    float *e = row + (input.embedding_first ? 0 : hidden_), *h = row + (input.embedding_first ? hidden_ : 0);
    row_kernels_.rms_norm(&buffers_.x[size_t(r) * hidden_], input.embedding_norm.weight.data(),
                          input.embedding_norm.eps, hidden_, e);
    row_kernels_.rms_norm(piece.rows[r].joined, input.hidden_norm.weight.data(), input.hidden_norm.eps, hidden_, h);
    both.set_row(kernels_, r, row);
  });
  const MatmulJob fc[] = {{&input.fc.linear, buffers_.x.data(), hidden_}};
  multiply(fc, both);
  add_bias(input.fc, buffers_.x.data(), piece.size());
  if (network_.blocks.empty()) return;
  for_rows(piece.size(), hidden_, [&](int r) { norm_and_quantise(network_.blocks[0].before_mixer, r); });
}

void CpuModel::norm_and_quantise(const PackedNorm& norm, int row) {
  float* y = &buffers_.y[size_t(row) * hidden_];
  row_kernels_.rms_norm(&buffers_.x[size_t(row) * hidden_], norm.weight.data(), norm.eps, hidden_, y);
  activations(hidden_).set_row(kernels_, row, y);
}

void CpuModel::add_bias(const PackedLayer& layer, float* y, int rows) {
  if (layer.bias.empty()) return;
  const int n = int(layer.bias.size());
  for_rows(rows, n, [&](int r) { row_kernels_.add(y + size_t(r) * n, layer.bias.data(), n); });
}

// x += norm(y + bias)
void CpuModel::add_result(const std::vector<float>& bias, const std::optional<PackedNorm>& after, int row) {
  float* y = &buffers_.y[size_t(row) * hidden_];
  if (!bias.empty()) row_kernels_.add(y, bias.data(), hidden_);
  if (after) row_kernels_.rms_norm(y, after->weight.data(), after->eps, hidden_, y);
  row_kernels_.add(&buffers_.x[size_t(row) * hidden_], y, hidden_);
}

// In the last block, rows that want no output are of use for the caches and states only.
void CpuModel::mixer(int layer, Piece& piece) {
  const PackedBlock& block = network_.blocks[layer];
  const bool narrows = layer + 1 == int(network_.blocks.size()) && !piece.all_wanted();
  if (const auto* a = std::get_if<PackedAttention>(&block.mixer)) {
    attention(block, *a, piece, narrows);
    if (!piece.rows.empty()) project(a->o, block, piece.size(), buffers_.attended.data());
  } else {
    const PackedDelta& d = std::get<PackedDelta>(block.mixer);
    delta_net(d, piece, narrows);
    if (!piece.rows.empty()) project(d.out, block, piece.size(), buffers_.z.data());
  }
}

// The mixer's output projection of `from`, the residual sum, and the feed-forward's normed input.
void CpuModel::project(const PackedLayer& out, const PackedBlock& block, int rows, const float* from) {
  const int64_t width = out.linear.inputs;
  for_rows(rows, width, [&](int r) { activations(width).set_row(kernels_, r, from + size_t(r) * width); });
  const MatmulJob job[] = {{&out.linear, buffers_.y.data(), hidden_}};
  multiply(job, activations(width));
  // The quantised hidden rows that the mixer read are not needed any more: those of the feed-forward take their place.
  for_rows(rows, hidden_, [&](int r) {
    add_result(out.bias, block.after_mixer, r);
    norm_and_quantise(block.before_ffn, r);
  });
}

void CpuModel::narrow(Piece& piece, std::span<const RowsOf> also) {
  int to = 0;
  std::vector<SequenceRows> sequences;
  auto move = [&](float* data, int64_t width, int from) {
    if (from != to) std::memmove(data + to * width, data + from * width, size_t(width) * sizeof(float));
  };
  for (SequenceRows s : piece.sequences) {
    const int begin = s.first_row, end = begin + s.rows, first = to;
    for (int r = begin; r < end; ++r) {
      if (!piece.rows[r].wanted()) continue;
      if (to == first) s.first_position += r - begin;  // those that want an output are the last ones of their sequence
      move(buffers_.x.data(), hidden_, r);
      for (size_t i = 0; i < network_.ropes.size(); ++i) {
        move(buffers_.cos[i].data(), network_.ropes[i].dims / 2, r);
        move(buffers_.sin[i].data(), network_.ropes[i].dims / 2, r);
      }
      for (const RowsOf& rows : also) move(rows.data, rows.width, r);
      piece.rows[to] = piece.rows[r];
      ++to;
    }
    s.first_row = first, s.rows = to - first;
    if (s.rows > 0) sequences.push_back(s);
  }
  piece.rows.resize(to);
  piece.sequences = std::move(sequences);
  set_rows(to);
}

void CpuModel::attention(const PackedBlock& block, const PackedAttention& a, Piece& piece, bool narrows) {
  Buffers& b = buffers_;
  const int64_t queries = int64_t(a.heads) * a.head_dim, keys = int64_t(a.kv_heads) * a.head_dim;
  const MatmulJob q = {&a.q.linear, a.gated ? b.wide.data() : b.q.data(), a.gated ? 2 * queries : queries};
  const MatmulJob kvq[] = {{&a.k.linear, b.k.data(), keys}, {&a.v.linear, b.v.data(), keys}, q};
  multiply(std::span(kvq, narrows ? 2 : 3), activations(hidden_));
  for (const SequenceRows& s : piece.sequences) {
    for_rows(s.rows, queries + 2 * keys, [&](int i) {
      const int r = s.first_row + i;
      place_keys(a, piece.rows[r], r, *s.state);
      if (!narrows) place_query(a, r);
    });
  }
  if (narrows) {
    narrow(piece, {});
    if (piece.rows.empty()) return;
    for_rows(piece.size(), hidden_, [&](int r) { norm_and_quantise(block.before_mixer, r); });
    multiply({&q, 1}, activations(hidden_));
    for_rows(piece.size(), queries, [&](int r) { place_query(a, r); });
  }
  attend_->run(a.layer, {a.heads, a.kv_heads, a.head_dim, a.window, a.softcap}, piece.sequences, b.q.data(),
               b.attended.data());
  if (!a.gated) return;
  for_rows(piece.size(), queries, [&](int r) {
    for (int h = 0; h < a.heads; ++h) {
      const size_t head = size_t(r) * a.heads + h;
      float* attended = &b.attended[head * a.head_dim];
      row_kernels_.sigmoid_times(&b.wide[(2 * head + 1) * a.head_dim], attended, a.head_dim, attended);
    }
  });
}

// Biases, norms, rope and scale of one row's queries.
void CpuModel::place_query(const PackedAttention& a, int r) {
  Buffers& b = buffers_;
  const int d = a.head_dim, step = a.gated ? 2 * d : d;
  float* q = &b.q[size_t(r) * a.heads * d];
  float* from = a.gated ? &b.wide[size_t(r) * a.heads * step] : q;
  if (!a.q.bias.empty()) row_kernels_.add(from, a.q.bias.data(), a.heads * step);
  const Rope& rope = network_.ropes[a.rope];
  const float* cos = b.cos[a.rope].data() + size_t(r) * (rope.dims / 2);
  const float* sin = b.sin[a.rope].data() + size_t(r) * (rope.dims / 2);
  const auto rotate = rope.interleaved ? row_kernels_.rope_interleaved : row_kernels_.rope_half;
  for (int h = 0; h < a.heads; ++h) {
    if (a.q_norm) {
      row_kernels_.rms_norm(from + h * step, a.q_norm->weight.data(), a.q_norm->eps, d, q + h * d);
    } else if (a.gated) {
      std::memcpy(q + h * d, from + h * step, size_t(d) * sizeof(float));
    }
    rotate(q + h * d, cos, sin, rope.dims);
  }
  row_kernels_.multiply(q, a.scale, a.heads * d);
}

// Biases, norms and rope of one row's keys; keys and values go into the cache.
void CpuModel::place_keys(const PackedAttention& a, const Row& row, int r, const KvState& state) {
  Buffers& b = buffers_;
  const int d = a.head_dim;
  float* k = &b.k[size_t(r) * a.kv_heads * d];
  float* v = &b.v[size_t(r) * a.kv_heads * d];
  if (!a.k.bias.empty()) row_kernels_.add(k, a.k.bias.data(), a.kv_heads * d);
  if (!a.v.bias.empty()) row_kernels_.add(v, a.v.bias.data(), a.kv_heads * d);
  const Rope& rope = network_.ropes[a.rope];
  const float* cos = b.cos[a.rope].data() + size_t(r) * (rope.dims / 2);
  const float* sin = b.sin[a.rope].data() + size_t(r) * (rope.dims / 2);
  const auto rotate = rope.interleaved ? row_kernels_.rope_interleaved : row_kernels_.rope_half;
  const int block = state.blocks()[row.position / kKvBlock], slot = row.position % kKvBlock;
  for (int h = 0; h < a.kv_heads; ++h) {
    if (a.k_norm) row_kernels_.rms_norm(k + h * d, a.k_norm->weight.data(), a.k_norm->eps, d, k + h * d);
    rotate(k + h * d, cos, sin, rope.dims);
    row_kernels_.to_half(k + h * d, d, kKvBlock, kv_->keys(block, a.layer, h) + slot);
    row_kernels_.to_half(v + h * d, d, 1, kv_->values(block, a.layer, h) + size_t(slot) * d);
  }
}

// Leaves the gated output in z.
void CpuModel::delta_net(const PackedDelta& d, Piece& piece, bool narrows) {
  Buffers& b = buffers_;
  const int64_t heads = d.shape.value_heads, values = d.shape.values(), channels = d.shape.channels();
  const MatmulJob jobs[] = {{&d.qkv.linear, b.wide.data(), channels},
                            {&d.z.linear, b.z.data(), values},
                            {&d.b.linear, b.b.data(), heads},
                            {&d.a.linear, b.a.data(), heads}};
  multiply(jobs, activations(hidden_));
  add_bias(d.qkv, b.wide.data(), piece.size()), add_bias(d.z, b.z.data(), piece.size());
  add_bias(d.b, b.b.data(), piece.size()), add_bias(d.a, b.a.data(), piece.size());
  delta_.run(d, piece.sequences, {b.wide.data(), b.b.data(), b.a.data(), b.z.data(), b.attended.data()});
  if (!narrows) return;
  const RowsOf z[] = {{b.z.data(), values}};
  narrow(piece, z);
}

// gate = act(gate x) * (up x). A chunk is the same outputs of both matrices, so that its activation follows at once.
void CpuModel::gate_and_up(const PackedMlp& mlp, int rows) {
  Buffers& b = buffers_;
  const int64_t inner = mlp.gate.linear.outputs;
  const Activations& x = activations(hidden_);
  const MatmulJob both[] = {{&mlp.gate.linear, b.gate.data(), inner}, {&mlp.up.linear, b.up.data(), inner}};
  const auto act = mlp.activation == Activation::silu ? row_kernels_.silu_times : row_kernels_.gelu_times;
  const int64_t chunk = std::max<int64_t>(1, blocks_per_chunk(both, rows, pool_->workers()) / 2);
  pool_->parallel_for(mlp.gate.linear.blocks(), chunk, [&](int, int64_t begin, int64_t end) {
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
  const bool last = layer + 1 == int(network_.blocks.size());
  Buffers& b = buffers_;
  const std::vector<float> none;
  const std::vector<float>* bias = &none;
  const auto* moe = std::get_if<PackedMoe>(&block.ffn);
  if (moe) {
    mixture_.run(*moe, activations(hidden_));
  } else {
    const PackedMlp& mlp = std::get<PackedMlp>(block.ffn);
    const int64_t inner = mlp.gate.linear.outputs;
    gate_and_up(mlp, rows);
    for_rows(rows, inner, [&](int r) { activations(inner).set_row(kernels_, r, &b.gate[size_t(r) * inner]); });
    const MatmulJob down[] = {{&mlp.down.linear, b.y.data(), hidden_}};
    multiply(down, activations(inner));
    bias = &mlp.down.bias;
  }
  for_rows(rows, hidden_, [&](int r) {
    if (moe) mixture_.combine(*moe, r, &b.y[size_t(r) * hidden_]);
    add_result(*bias, block.after_ffn, r);
    if (!last) norm_and_quantise(network_.blocks[layer + 1].before_mixer, r);
  });
}

// The hidden vectors that rows ask for.
void CpuModel::outputs(const Piece& piece) {
  for_rows(piece.size(), hidden_, [&](int r) {
    const Row& row = piece.rows[r];
    if (row.hidden < 0) return;
    const float* x = &buffers_.x[size_t(r) * hidden_];
    float* out = &hidden_out_[size_t(row.hidden) * hidden_];
    if (row.hidden_kind == Hidden::before_norm) {
      std::memcpy(out, x, size_t(hidden_) * sizeof(float));
    } else {
      row_kernels_.rms_norm(x, network_.final_norm.weight.data(), network_.final_norm.eps, hidden_, out);
    }
  });
}

// Final norm and the head's first `columns` outputs, of the rows that ask for logits.
void CpuModel::head(const Piece& piece, int columns) {
  std::vector<int> asked;
  for (int r = 0; r < piece.size(); ++r) {
    if (piece.rows[r].logits >= 0) asked.push_back(r);
  }
  if (asked.empty()) return;
  float* logits = &logits_[size_t(piece.rows[asked[0]].logits) * columns];
  Activations& inputs = activations(hidden_);
  inputs.resize(int(asked.size()));
  for_rows(int(asked.size()), hidden_, [&](int i) {
    float* y = &head_rows_[size_t(i) * hidden_];
    row_kernels_.rms_norm(&buffers_.x[size_t(asked[i]) * hidden_], network_.final_norm.weight.data(),
                          network_.final_norm.eps, hidden_, y);
    inputs.set_row(kernels_, i, y);
  });
  const PackedLayer& head = *network_.head;
  const MatmulJob job[] = {{&head.linear, logits, columns, columns < vocab_ ? columns : 0}};
  multiply(job, inputs);
  if (head.bias.empty() && logit_softcap_ == 0) return;
  for_rows(int(asked.size()), columns, [&](int i) {
    float* row = logits + size_t(i) * columns;
    if (!head.bias.empty()) row_kernels_.add(row, head.bias.data(), columns);
    if (logit_softcap_ > 0) row_kernels_.softcap(row, logit_softcap_, columns);
  });
}

}  // namespace drafthorse::cpu
