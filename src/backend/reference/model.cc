#include "backend/reference/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "backend/reference/parts.h"
#include "backend/scheme.h"
#include "core/math.h"

namespace drafthorse {
namespace {

using reference::Cache;
using reference::Row;
using reference::RowsOf;

class ReferenceState final : public State {
 public:
  explicit ReferenceState(size_t layers) : caches(layers) {}
  int length() const override { return length_; }
  void truncate(int length) override {
    if (length < 0 || length > length_) throw std::logic_error("truncate beyond the state's length");
    set_length(length);
  }
  // Also drops rows that a cancelled run has left in some layers.
  void set_length(int length) {
    for (Cache& cache : caches) {
      cache.keys.resize(std::min(cache.keys.size(), size_t(length)));
      cache.values.resize(std::min(cache.values.size(), size_t(length)));
    }
    length_ = length;
  }
  std::vector<Cache> caches;

 private:
  int length_ = 0;
};

class ReferenceModel final : public Model {
 public:
  ReferenceModel(const Network& network, int context, bool quantised)
      : network_(network), context_(context), mode_{quantised} {}

  int vocab() const override { return network_.vocab; }
  int context() const override { return context_; }
  std::string description() const override {
    return mode_.quantised ? "reference, quantised activations" : "reference, fp32 activations";
  }
  // The weights stay in the mapped file; caches are counted where they are made, in no budget.
  std::vector<MemoryPart> memory() const override {
    return {{"weights", 0}, {"kv", 0}, {"buffers", logits_.capacity() * sizeof(float)}};
  }
  std::unique_ptr<State> new_state() override { return std::make_unique<ReferenceState>(network_.blocks.size()); }

  Status reserve(State& state, int positions) override {
    if (positions >= 0 && positions <= context_ - state.length()) return {};
    return Error{
        ErrorKind::context_length,
        fmt::format("{} more positions after {} exceed the context of {}", positions, state.length(), context_), ""};
  }

  RunOutput run(std::span<const BatchItem> batch, const std::function<bool()>& cancelled) override {
    logits_.clear();
    int rows = 0;
    for (const BatchItem& item : batch) check(item);
    for (const BatchItem& item : batch) {
      RowsOf x;
      if (!blocks(item, x, cancelled)) {
        for (const BatchItem& touched : batch) touched.state->truncate(touched.state->length());
        logits_.clear();
        RunOutput out;
        out.stopped = true;
        return out;
      }
      if (item.logits == LogitRows::last) x.erase(x.begin(), x.end() - 1);
      if (item.logits == LogitRows::none) continue;
      rows += int(x.size());
      head(x);
    }
    for (const BatchItem& item : batch) {
      static_cast<ReferenceState&>(*item.state).set_length(item.state->length() + int(item.tokens.size()));
    }
    return {logits_, rows};
  }

 private:
  void check(const BatchItem& item) const {
    if (item.tokens.empty() || int64_t(item.tokens.size()) > context_ - item.state->length()) {
      throw std::logic_error("run: a sequence without tokens or past the context");
    }
    for (int32_t token : item.tokens) {
      if (token < 0 || token >= network_.vocab) throw std::logic_error("run: token id outside the vocabulary");
    }
  }

  // x: the item's rows after the last block. False when cancelled.
  bool blocks(const BatchItem& item, RowsOf& x, const std::function<bool()>& cancelled) const {
    ReferenceState& state = static_cast<ReferenceState&>(*item.state);
    for (int32_t token : item.tokens) {
      Row& row = x.emplace_back(size_t(network_.hidden));
      if (Status status = dequantise(network_.embedding, token, 1, row); !status) {
        throw std::logic_error(status.error().message);
      }
      if (network_.embedding_scale != 1.0f) {
        for (float& e : row) e *= network_.embedding_scale;
      }
    }
    for (size_t b = 0; b < network_.blocks.size(); ++b) {
      if (cancelled && cancelled()) return false;
      const Block& block = network_.blocks[b];
      residual(x, block.before_mixer, block.after_mixer, [&](const RowsOf& h) {
        return reference::attention(std::get<Attention>(block.mixer), h, state.length(), state.caches[b], mode_);
      });
      residual(x, block.before_ffn, block.after_ffn,
               [&](const RowsOf& h) { return reference::mlp(std::get<Mlp>(block.ffn), h, mode_); });
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

  void head(RowsOf& x) {
    for (Row& row : x) reference::norm(network_.final_norm, row);
    for (Row& row : reference::linear(network_.head, x, mode_)) {
      const float cap = network_.logit_softcap;
      for (float logit : row) logits_.push_back(cap > 0 ? cap * tanh_fixed(logit / cap) : logit);
    }
  }

  Network network_;
  int context_;
  reference::Mode mode_;
  std::vector<float> logits_;
};

// Every tensor that run will read can be read.
Status check_tensors(const Network& network) {
  auto readable = [](const TensorView& tensor) -> Status {
    if (tensor.rows() < 1) return Error{ErrorKind::corrupt, tensor.name + ": an empty tensor", ""};
    std::vector<float> row(size_t(tensor.columns()));
    return dequantise(tensor, 0, 1, row);
  };
  auto check = [&](const Linear& linear) -> Status {
    if (Result<Scheme> scheme = scheme_of(linear.weight); !scheme) return scheme.error();
    return linear.bias ? readable(*linear.bias) : Status{};
  };
  if (Status status = readable(network.embedding); !status) return status;
  if (Status status = check(network.head); !status) return status;
  for (size_t b = 0; b < network.blocks.size(); ++b) {
    const Attention& a = std::get<Attention>(network.blocks[b].mixer);
    const Mlp& m = std::get<Mlp>(network.blocks[b].ffn);
    for (const Linear* linear : {&a.q, &a.k, &a.v, &a.o, &m.gate, &m.up, &m.down}) {
      if (Status status = check(*linear); !status) return status.error().with_context(fmt::format("block {}", b));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> load_reference(const Network& network, const BackendOptions& options) {
  if (Status status = check_tensors(network); !status) return status.error();
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
