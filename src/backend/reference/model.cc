#include "backend/reference/model.h"

#include <fmt/format.h>

#include <stdexcept>

#include "backend/reference/check_tensors.h"
#include "backend/reference/moe.h"
#include "backend/reference/state.h"
#include "core/math.h"

namespace drafthorse {
namespace {

using reference::ReferenceState;
using reference::Row;
using reference::RowsOf;

class ReferenceModel final : public Model {
 public:
  ReferenceModel(const Network& network, int context, bool quantised)
      : network_(network), context_(context), mode_{quantised} {}

  int vocab() const override { return network_.vocab; }
  int context() const override { return context_; }
  int hidden() const override { return network_.hidden; }
  std::string description() const override {
    return mode_.quantised ? "reference, quantised activations" : "reference, fp32 activations";
  }
  // The weights stay in the mapped file; caches are counted where they are made, in no budget.
  std::vector<MemoryPart> memory() const override {
    return {{"weights", 0}, {"kv", 0}, {"buffers", (logits_.capacity() + hidden_.capacity()) * sizeof(float)}};
  }
  std::unique_ptr<State> new_state() override { return std::make_unique<ReferenceState>(network_); }

  Status reserve(State& state, int positions) override {
    if (positions >= 0 && positions <= context_ - state.length()) return {};
    return Error{
        ErrorKind::context_length,
        fmt::format("{} more positions after {} exceed the context of {}", positions, state.length(), context_), ""};
  }

  RunOutput run(std::span<const BatchItem> batch, const std::function<bool()>& cancelled) override {
    for (const BatchItem& item : batch) check(item);
    logits_.clear(), hidden_.clear();
    const int columns = logit_columns(batch, network_.vocab);
    int rows = 0;
    try {
      for (const BatchItem& item : batch) {
        RowsOf x = inputs(item);
        if (!blocks(item, x, cancelled)) {
          abandon(batch);
          RunOutput out;
          out.stopped = true;
          return out;
        }
        rows += outputs(item, std::move(x), columns);
      }
    } catch (...) {
      abandon(batch);
      throw;
    }
    for (const BatchItem& item : batch) state_of(item).extended(int(item.tokens.size()), item.tentative);
    RunOutput out;
    out.logits = logits_, out.rows = rows, out.columns = columns, out.hidden = hidden_;
    return out;
  }

  Result<std::unique_ptr<Model>> load_companion(const Network& network) override {
    if (Status status = reference::check_tensors(network); !status) return status.error();
    return std::unique_ptr<Model>(new ReferenceModel(network, context_, mode_.quantised));
  }

 private:
  static ReferenceState& state_of(const BatchItem& item) { return static_cast<ReferenceState&>(*item.state); }
  static void abandon(std::span<const BatchItem> batch) {
    for (const BatchItem& item : batch) state_of(item).abandon();
  }

  void check(const BatchItem& item) const {
    const size_t n = item.tokens.size();
    if (n == 0 || int64_t(n) > context_ - item.state->length()) {
      throw std::logic_error("run: a sequence without tokens or past the context");
    }
    for (int32_t token : item.tokens) {
      if (token < 0 || token >= network_.vocab) throw std::logic_error("run: token id outside the vocabulary");
    }
    if (item.tentative < 0 || item.tentative > kMostTentative || size_t(item.tentative) > n) {
      throw std::logic_error("run: more tentative tokens than there are, or than may be");
    }
    if (item.joined.size() != (network_.joined_input ? n * size_t(network_.hidden) : 0)) {
      throw std::logic_error("run: hidden vectors to join for another number of tokens");
    }
  }

  // The embeddings, and of a drafting head what it makes of them and of the hidden vectors: fc([norm(e), norm(h)]).
  RowsOf inputs(const BatchItem& item) const {
    const size_t hidden = size_t(network_.hidden);
    RowsOf x;
    for (size_t r = 0; r < item.tokens.size(); ++r) {
      Row& row = x.emplace_back(hidden);
      if (Status status = dequantise(network_.embedding, item.tokens[r], 1, row); !status) {
        throw std::logic_error(status.error().message);
      }
      if (network_.embedding_scale != 1.0f) {
        for (float& e : row) e *= network_.embedding_scale;
      }
      if (!network_.joined_input) continue;
      const JoinedInput& join = *network_.joined_input;
      const std::span<const float> h = item.joined.subspan(r * hidden, hidden);
      Row other(h.begin(), h.end());
      reference::norm(join.embedding_norm, row);
      reference::norm(join.hidden_norm, other);
      if (!join.embedding_first) row.swap(other);
      row.insert(row.end(), other.begin(), other.end());
    }
    return network_.joined_input ? reference::linear(network_.joined_input->fc, x, mode_) : x;
  }

  // x: the item's rows, before and after the blocks. False when cancelled.
  bool blocks(const BatchItem& item, RowsOf& x, const std::function<bool()>& cancelled) const {
    ReferenceState& state = state_of(item);
    for (size_t b = 0; b < network_.blocks.size(); ++b) {
      if (cancelled && cancelled()) return false;
      const Block& block = network_.blocks[b];
      residual(x, block.before_mixer, block.after_mixer, [&](const RowsOf& h) {
        if (const auto* attention = std::get_if<Attention>(&block.mixer)) {
          return reference::attention(*attention, h, state.length(), state.layers[b].cache, mode_);
        }
        state.touch();
        return reference::delta_net(std::get<DeltaNet>(block.mixer), h, item.tentative, state.layers[b].history, mode_);
      });
      residual(x, block.before_ffn, block.after_ffn, [&](const RowsOf& h) {
        if (const auto* mlp = std::get_if<Mlp>(&block.ffn)) return reference::mlp(*mlp, h, mode_);
        return reference::moe(std::get<Moe>(block.ffn), h, mode_);
      });
    }
    return true;
  }

  // x += after(part(before(x)))
  template <class Part>
  void residual(RowsOf& x, const Norm& before, const std::optional<Norm>& after, Part part) const {
    RowsOf h = x;
    for (Row& row : h) reference::norm(before, row);
    RowsOf y = part(h);
    for (size_t r = 0; r < x.size(); ++r) {
      if (after) reference::norm(*after, y[r]);
      for (size_t i = 0; i < x[r].size(); ++i) x[r][i] += y[r][i];
    }
  }

  // Appends the asked logits and hidden vectors of x, the rows after the last block; the number of rows of logits.
  int outputs(const BatchItem& item, RowsOf x, int columns) {
    if (item.hidden == Hidden::before_norm) keep_hidden(x, item.hidden_last);
    for (Row& row : x) reference::norm(network_.final_norm, row);
    if (item.hidden == Hidden::after_norm) keep_hidden(x, item.hidden_last);
    if (item.logits == LogitRows::none) return 0;
    if (item.logits == LogitRows::last) x.erase(x.begin(), x.end() - 1);
    for (Row& row : reference::linear(network_.head, x, mode_)) {
      const float cap = network_.logit_softcap;
      for (float logit : std::span(row).first(size_t(columns)))
        logits_.push_back(cap > 0 ? cap * tanh_fixed(logit / cap) : logit);
    }
    return int(x.size());
  }

  void keep_hidden(const RowsOf& x, bool last) {
    for (size_t r = last ? x.size() - 1 : 0; r < x.size(); ++r) hidden_.insert(hidden_.end(), x[r].begin(), x[r].end());
  }

  Network network_;
  int context_;
  reference::Mode mode_;
  std::vector<float> logits_, hidden_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_reference(const Network& network, const BackendOptions& options) {
  if (Status status = reference::check_tensors(network); !status) return status.error();
  const int own = network.context_length;
  if (options.context < 0 || (own > 0 && options.context > own) || (own <= 0 && options.context == 0)) {
    return Error{
        ErrorKind::invalid_argument,
        fmt::format("a context of {} was asked for, the model was made for {} positions", options.context, own),
        "context"};
  }
  const int context = options.context > 0 ? options.context : own;
  return std::unique_ptr<Model>(new ReferenceModel(network, context, options.quantised_activations));
}

}  // namespace drafthorse
