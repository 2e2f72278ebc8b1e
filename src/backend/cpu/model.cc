#include "backend/cpu/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "core/topology.h"

namespace drafthorse::cpu {
namespace {

int worker_count(const BackendOptions& options) {
  return options.threads > 0 ? options.threads : read_cpu_limits().workers();
}

KvState& state_of(const BatchItem& item) { return static_cast<KvState&>(*item.state); }

// Blocks of a companion, so that it can hold what the sequences in `pool` hold and a block more for each: a drafter may
// be a few positions ahead.
int companion_blocks(const KvPool& pool, const KvLayout& companion) {
  const int recurrent = pool.layout().recurrent.blocks;
  // A sequence takes its recurrent blocks and at least one of positions; without the former, any number is a guess.
  const int sequences = std::clamp(pool.blocks() / (recurrent + 1), 1, 64);
  const int positions = recurrent > 0 ? std::max(pool.blocks() - recurrent, 0) + 1 : pool.blocks() + sequences;
  return positions + sequences * companion.recurrent.blocks;
}

// Puts the states of a batch back when its run does not come to its end.
class Undo {
 public:
  explicit Undo(std::span<const BatchItem> batch) : batch_(batch) {}
  ~Undo() {
    if (done) return;
    int first_row = 0;
    for (const BatchItem& item : batch_) {
      if (first_row < touched_rows) state_of(item).clear();
      state_of(item).shrink();
      first_row += int(item.tokens.size());
    }
  }
  bool done = false;
  int touched_rows = 0;  // rows of the batch that recurrent memory may have taken in

 private:
  std::span<const BatchItem> batch_;
};

}  // namespace

CpuModel::CpuModel(const Network& network, const Kernels& kernels, const RowKernels& rows,
                   std::shared_ptr<ThreadPool> pool)
    : checkpoint_(network.checkpoint),
      embedding_(network.embedding),
      head_(network.head.weight),
      embedding_scale_(network.embedding_scale),
      logit_softcap_(network.logit_softcap),
      hidden_(network.hidden),
      vocab_(network.vocab),
      kernels_(kernels),
      row_kernels_(rows),
      pool_(std::move(pool)),
      delta_(rows, *pool_),
      mixture_(kernels, rows, *pool_) {}

Result<std::unique_ptr<Model>> CpuModel::load(const Network& network, const BackendOptions& options, KvLayout layout,
                                              int kv_blocks, int context, const Progress& progress) {
  Result<const Kernels*> kernels = select_kernels(options.isa);
  if (!kernels) return kernels.error();
  const RowKernels* rows = row_kernels(isa_name(**kernels));
  if (!rows) rows = row_kernels("portable");  // same bits, for a set that has matrix products only
  std::unique_ptr<CpuModel> model(
      new CpuModel(network, **kernels, *rows, std::make_shared<ThreadPool>(worker_count(options))));
  return build(std::move(model), network, std::move(layout), kv_blocks, context, progress, {});
}

Result<std::unique_ptr<Model>> CpuModel::build(std::unique_ptr<CpuModel> model, const Network& network, KvLayout layout,
                                               int kv_blocks, int context, const Progress& progress,
                                               std::shared_ptr<const PackedLayer> head) {
  Result<std::shared_ptr<KvPool>> kv = KvPool::create(std::move(layout), kv_blocks);
  if (!kv) return kv.error();
  model->kv_ = std::move(*kv);
  model->context_ = context;
  std::vector<float> row(network.embedding.columns());
  if (Status status = dequantise(network.embedding, 0, 1, row); !status) return status.error();
  Result<PackedNetwork> packed = pack_network(network, *model->pool_, progress, std::move(head));
  if (!packed) return packed.error();
  model->network_ = std::move(*packed);
  model->attend_ = std::make_unique<Attend>(model->row_kernels_, *model->pool_, *model->kv_);
  model->make_room(1);
  return std::unique_ptr<Model>(std::move(model));
}

Result<std::unique_ptr<Model>> CpuModel::load_companion(const Network& network) {
  if (network.hidden != hidden_ && network.joined_input) {
    return Error{ErrorKind::unsupported,
                 fmt::format("a drafting head over {} hidden elements for a model of {}", network.hidden, hidden_), ""};
  }
  Result<KvLayout> layout = kv_layout(network);
  if (!layout) return layout.error();
  const int blocks = companion_blocks(*kv_, *layout);
  const bool same_head = network.head.weight.data.data() == head_.data.data() &&
                         network.head.weight.shape == head_.shape && !network.head.bias && network_.head->bias.empty();
  std::unique_ptr<CpuModel> model(new CpuModel(network, kernels_, row_kernels_, pool_));
  return build(std::move(model), network, std::move(*layout), blocks, context_, {},
               same_head ? network_.head : nullptr);
}

std::string CpuModel::description() const {
  return fmt::format("cpu {}, {} thread{}", isa_name(kernels_), pool_->workers(), pool_->workers() == 1 ? "" : "s");
}

std::vector<MemoryPart> CpuModel::memory() const {
  const uint64_t floats = head_rows_.capacity() + logits_.capacity() + hidden_out_.capacity();
  return {{"weights", network_.bytes},
          {"kv", kv_->bytes()},
          {"buffers", buffers_.bytes + attend_->bytes() + delta_.bytes() + mixture_.bytes() + floats * sizeof(float)}};
}

std::vector<TimePart> CpuModel::times() const {
  auto seconds = [&](Part part) { return seconds_[int(part)]; };
  return {{"attention", seconds(Part::attention)},
          {"gated delta rule", seconds(Part::delta)},
          {"feed-forward", seconds(Part::mlp)},
          {"experts", seconds(Part::experts)},
          {"head", seconds(Part::head)}};
}

Status CpuModel::reserve(State& state, int positions) {
  KvState& kv = static_cast<KvState&>(state);
  if (positions < 0 || positions > context_ - kv.length()) {
    return Error{ErrorKind::context_length,
                 fmt::format("{} more positions after {} exceed the context of {}", positions, kv.length(), context_),
                 ""};
  }
  if (kv.reserve(positions)) return {};
  const int recurrent = kv.missing_recurrent(positions);
  const std::string states = recurrent > 0 ? fmt::format(" and {} blocks of recurrent state", recurrent) : "";
  return Error{
      ErrorKind::out_of_memory,
      fmt::format("{} more positions need {} KV blocks of {} positions{}, {} of {} are free", positions,
                  kv.missing_blocks(positions) - recurrent, kKvBlock, states, kv_->free_blocks(), kv_->blocks()),
      ""};
}

void CpuModel::make_room(int rows) {
  if (rows <= buffers_.capacity) return;
  const int capacity = std::min(int(std::bit_ceil(unsigned(rows))), kMaxRows);
  mixture_.make_room(network_, capacity);
  buffers_ = make_buffers(network_, hidden_, capacity);
}

bool CpuModel::Piece::all_wanted() const {
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.wanted(); });
}

// All rows of the batch, checked.
CpuModel::Piece CpuModel::read_batch(std::span<const BatchItem> batch) const {
  Piece all;
  int logits = 0, hidden = 0;
  for (const BatchItem& item : batch) {
    const KvState& state = state_of(item);
    const int n = int(item.tokens.size());
    if (n == 0 || n > context_ - state.length())
      throw std::logic_error("run: a sequence without tokens or past the context");
    if (item.tentative < 0 || item.tentative > std::min(n, kMostTentative))
      throw std::logic_error("run: more tentative tokens than the item or a tape has");
    if (item.joined.size() != (network_.joined_input ? size_t(n) * size_t(hidden_) : 0))
      throw std::logic_error("run: joined vectors do not fit the tokens or the network");
    all.sequences.push_back(
        {&state, state.length(), all.size(), n, state.taped(), item.tentative, state.committed() == 0});
    for (int i = 0; i < n; ++i) {
      if (item.tokens[i] < 0 || item.tokens[i] >= vocab_)
        throw std::logic_error("run: token id outside the vocabulary");
      Row row{item.tokens[i], state.length() + i};
      if (item.logits == LogitRows::all || (item.logits == LogitRows::last && i == n - 1)) row.logits = logits++;
      if (item.hidden != Hidden::none && (!item.hidden_last || i == n - 1)) {
        row.hidden = hidden++;
        row.hidden_kind = item.hidden;
      }
      if (!item.joined.empty()) row.joined = &item.joined[size_t(i) * size_t(hidden_)];
      all.rows.push_back(row);
    }
  }
  return all;
}

// The piece that starts at row `begin`: at most kMaxRows rows, a sequence's tentative rows never cut.
CpuModel::Piece CpuModel::cut(const Piece& batch, int begin) const {
  int end = std::min(batch.size(), begin + kMaxRows);
  for (const SequenceRows& s : batch.sequences) {
    const int past = s.first_row + s.rows, tentative = past - s.tentative;
    if (tentative < end && end < past) end = tentative;
  }
  Piece piece;
  piece.rows.assign(batch.rows.begin() + begin, batch.rows.begin() + end);
  for (const SequenceRows& s : batch.sequences) {
    const int past = s.first_row + s.rows, from = std::max(s.first_row, begin), to = std::min(past, end);
    if (from >= to) continue;
    const bool first = from == s.first_row;
    piece.sequences.push_back({s.state, s.first_position + from - s.first_row, from - begin, to - from,
                               first ? s.replay : 0, to == past ? s.tentative : 0, first && s.fresh});
  }
  return piece;
}

RunOutput CpuModel::run(std::span<const BatchItem> batch, const std::function<bool()>& cancelled) {
  const Piece all = read_batch(batch);
  size_t logits = 0, hidden = 0;
  for (const Row& row : all.rows) logits += row.logits >= 0, hidden += row.hidden >= 0;
  make_room(std::min(all.size(), kMaxRows));
  const int columns = logit_columns(batch, vocab_);
  if (logits_.size() < logits * size_t(columns)) logits_.resize(logits * size_t(columns));
  if (hidden_out_.size() < hidden * size_t(hidden_)) hidden_out_.resize(hidden * size_t(hidden_));
  const size_t head_rows = std::min(logits, size_t(kMaxRows)) * size_t(hidden_);
  if (head_rows_.size() < head_rows) head_rows_.resize(head_rows);

  Undo undo(batch);
  for (const BatchItem& item : batch) {
    if (!state_of(item).grow(int(item.tokens.size())))
      throw std::logic_error("run: the KV pool is full; reserve() tells before");
  }
  for (int begin = 0; begin < all.size();) {
    if (cancelled && cancelled()) {
      RunOutput out;
      out.stopped = true;
      return out;
    }
    Piece piece = cut(all, begin);
    begin += piece.size();
    if (kv_->layout().recurrent.blocks > 0) undo.touched_rows = begin;
    if (!run_piece(piece, columns, cancelled)) {
      RunOutput out;
      out.stopped = true;
      return out;
    }
  }
  undo.done = true;
  for (const BatchItem& item : batch) state_of(item).extend(int(item.tokens.size()), item.tentative);
  RunOutput out;
  out.logits = std::span<const float>(logits_.data(), logits * size_t(columns));
  out.rows = int(logits), out.columns = columns;
  out.hidden = std::span<const float>(hidden_out_.data(), hidden * size_t(hidden_));
  return out;
}

}  // namespace drafthorse::cpu
