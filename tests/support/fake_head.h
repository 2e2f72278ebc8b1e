#pragma once
// A drafting head of FakeModel: from a hidden vector and the token after it, it knows the model's next logits, and is
// wrong at a share of the positions. A pair out of place (another token, another position) makes it guess at random.

#include <algorithm>
#include "support/fake_model.h"

namespace drafthorse::test {

class FakeHead final : public Model {
 public:
  // `model` must outlive it. pool: positions that all states together may hold.
  explicit FakeHead(const FakeModel& model, double accuracy = 0.8, int pool = 1 << 30)
      : model_(model),
        accuracy_(accuracy),
        states_({.vocab = model.vocab(), .context = model.context(), .pool = pool}) {}

  int vocab() const override { return model_.vocab(); }
  int context() const override { return model_.context(); }
  int hidden() const override { return kFakeHidden; }
  std::string description() const override { return "fake head"; }
  std::vector<MemoryPart> memory() const override { return {}; }
  std::unique_ptr<State> new_state() override { return states_.new_state(); }
  Status reserve(State& state, int positions) override { return states_.reserve(state, positions); }

  RunOutput run(std::span<const BatchItem> batch, const std::function<bool()>&) override {
    ++runs;
    logits_.clear();
    hidden_.clear();
    const int columns = logit_columns(batch, vocab());
    int rows = 0;
    for (const BatchItem& item : batch) {
      if (item.joined.size() != item.tokens.size() * kFakeHidden) throw std::logic_error("rows without hidden vectors");
      auto& state = static_cast<FakeState&>(*item.state);
      state.tokens.insert(state.tokens.end(), item.tokens.begin(), item.tokens.end());
      if (state.length() > state.reserved) throw std::logic_error("a run beyond what was reserved");
      for (size_t i = 0; i < item.tokens.size(); ++i) {
        FakeHistory h = FakeHistory::read(item.joined.subspan(i * kFakeHidden, kFakeHidden));
        h.append(item.tokens[i]);
        if (item.hidden != Hidden::none && (!item.hidden_last || i + 1 == item.tokens.size())) h.write(hidden_);
        const bool wanted =
            item.logits == LogitRows::all || (item.logits == LogitRows::last && i + 1 == item.tokens.size());
        if (!wanted) continue;
        ++rows;
        std::vector<float> row(static_cast<size_t>(vocab()));
        model_.logits_of(h, row);
        const bool wrong = static_cast<double>(mix(h.hash ^ 77) % 1000) >= accuracy_ * 1000;
        if (wrong) row[h.hash % row.size()] += unsure_when_wrong ? 5 : 100;
        else if (unsure_when_wrong) *std::max_element(row.begin(), row.end()) += 20;
        logits_.insert(logits_.end(), row.begin(), row.begin() + columns);
      }
    }
    RunOutput out;
    out.logits = logits_;
    out.rows = rows;
    out.columns = columns;
    out.hidden = hidden_;
    return out;
  }

  int runs = 0;
  bool unsure_when_wrong = false;  // its probabilities then say when it is right

 private:
  const FakeModel& model_;
  double accuracy_;
  FakeModel states_;
  std::vector<float> logits_, hidden_;
};

}  // namespace drafthorse::test
