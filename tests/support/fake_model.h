#pragma once
// A Model whose logits are a deterministic function of the whole token history, so that a wrong state length, a
// forgotten truncation or a row out of place changes the tokens.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "backend/backend.h"

namespace drafthorse::test {

struct FakeOptions {
  int vocab = 64;
  int context = 512;
  double repetitiveness = 0.7;            // share of contexts whose likeliest token depends on two tokens only
  int pool = 1 << 30;                     // positions that all states together may hold
  std::chrono::microseconds row_time{0};  // busy time a row, beside
  std::chrono::microseconds run_time{0};  // that of a run
  int nan_token = -1;                     // a history that ends with this token gives NaN
  int throw_token = -1;                   // a run that carries this token throws
  bool recurrent = false;                 // states go back over tentative rows only, and a failed run empties them
};

class FakeModel;

class FakeState final : public State {
 public:
  explicit FakeState(FakeModel& model) : model_(model) {}
  ~FakeState() override;
  int length() const override { return static_cast<int>(tokens.size()); }
  int earliest() const override { return std::max(1, earliest_length); }
  void truncate(int length) override {
    if (length < 0 || length > this->length()) throw std::logic_error("truncate beyond the state");
    if (length > 0 && length < earliest_length) throw std::logic_error("truncate before what can be taken back");
    if (length == 0) earliest_length = 0;
    tokens.resize(static_cast<size_t>(length));
  }

  std::vector<int32_t> tokens;
  int reserved = 0;
  int earliest_length = 0;  // of a recurrent model

 private:
  FakeModel& model_;
};

inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// A hidden vector says which history it belongs to: its hash in four pieces, and its last token.
inline constexpr int kFakeHidden = 5;
struct FakeHistory {
  uint64_t hash = 1469598103934665603u;
  int32_t last = 0, before_last = 0;

  void append(int32_t token) {
    hash = mix(hash ^ static_cast<uint64_t>(token + 1));
    before_last = last;
    last = token;
  }
  void write(std::vector<float>& out) const {
    for (int piece = 0; piece < 4; ++piece) out.push_back(static_cast<float>(hash >> (16 * piece) & 0xFFFF));
    out.push_back(static_cast<float>(last));
  }
  static FakeHistory read(std::span<const float> hidden) {
    FakeHistory h;
    h.hash = 0;
    for (size_t piece = 0; piece < 4; ++piece) h.hash |= static_cast<uint64_t>(hidden[piece]) << (16 * piece);
    h.last = static_cast<int32_t>(hidden[4]);
    return h;
  }
};

class FakeModel final : public Model {
 public:
  explicit FakeModel(FakeOptions options = {}) : options_(options) {}

  int vocab() const override { return options_.vocab; }
  int context() const override { return options_.context; }
  int hidden() const override { return kFakeHidden; }
  std::string description() const override { return "fake"; }
  std::vector<MemoryPart> memory() const override { return {}; }
  std::unique_ptr<State> new_state() override {
    ++live_states;
    return std::make_unique<FakeState>(*this);
  }

  Status reserve(State& state, int positions) override {
    auto& s = static_cast<FakeState&>(state);
    const int wanted = s.length() + positions;
    if (used_ + wanted - s.reserved > options_.pool)
      return Error{ErrorKind::out_of_memory,
                   fmt::format("{} positions wanted, {} of {} free", positions, options_.pool - used_, options_.pool),
                   ""};
    used_ += wanted - s.reserved;
    s.reserved = wanted;
    return {};
  }

  RunOutput run(std::span<const BatchItem> batch, const std::function<bool()>& cancelled) override {
    if (running_.exchange(true)) throw std::logic_error("two runs at once");
    int rows = 0;
    for (const auto& item : batch) {
      if (item.tokens.empty()) throw std::logic_error("an item without tokens");
      rows += static_cast<int>(item.tokens.size());
    }
    spend(options_.run_time + options_.row_time * rows);
    ++runs;
    widest_run = std::max(widest_run.load(), rows);
    if (cancelled && cancelled()) {
      running_ = false;
      RunOutput out;
      out.stopped = true;
      return out;
    }
    for (const auto& item : batch)
      if (std::count(item.tokens.begin(), item.tokens.end(), options_.throw_token)) {
        auto& touched = static_cast<FakeState&>(*batch[0].state);  // a half done run
        touched.tokens.push_back(0);
        if (options_.recurrent) touched.truncate(0);
        running_ = false;
        throw std::runtime_error("the fake model met its token");
      }
    logits_.clear();
    hidden_.clear();
    for (const auto& item : batch) extend(item);
    running_ = false;
    RunOutput out;
    out.logits = logits_;
    out.rows = static_cast<int>(logits_.size()) / options_.vocab;
    out.columns = options_.vocab;
    out.hidden = hidden_;
    return out;
  }

  // The logits after a history.
  void logits_of(std::span<const int32_t> history, std::span<float> out) const {
    FakeHistory h;
    for (int32_t token : history) h.append(token);
    logits_of(h, out);
  }

  void logits_of(const FakeHistory& h, std::span<float> out) const {
    const uint64_t near = mix(static_cast<uint64_t>(h.last) * 131 + static_cast<uint64_t>(h.before_last));
    const bool repeats = (mix(near ^ 99) % 1000) < options_.repetitiveness * 1000;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(mix(h.hash ^ (i * 0x9E3779B97F4A7C15u)) % 4096) / 1024.0f;
    if (repeats) out[near % out.size()] += 6;
    if (h.last == options_.nan_token) out[0] = std::numeric_limits<float>::quiet_NaN();
  }

  std::atomic<int> runs{0}, widest_run{0}, live_states{0};

 private:
  friend class FakeState;

  void extend(const BatchItem& item) {
    auto& state = static_cast<FakeState&>(*item.state);
    if (state.length() + static_cast<int>(item.tokens.size()) > options_.context)
      throw std::logic_error("a run beyond the context");
    if (state.length() + static_cast<int>(item.tokens.size()) > state.reserved)
      throw std::logic_error("a run beyond what was reserved");
    if (item.tentative < 0 || item.tentative > std::min<int>(kMostTentative, static_cast<int>(item.tokens.size())))
      throw std::logic_error("more tentative rows than rows, or than may be");
    const int length = state.length() + static_cast<int>(item.tokens.size());
    for (size_t i = 0; i < item.tokens.size(); ++i) {
      if (item.tokens[i] < 0 || item.tokens[i] >= options_.vocab) throw std::logic_error("a token out of range");
      state.tokens.push_back(item.tokens[i]);
      const bool wanted =
          item.logits == LogitRows::all || (item.logits == LogitRows::last && i + 1 == item.tokens.size());
      if (item.hidden != Hidden::none && (!item.hidden_last || i + 1 == item.tokens.size())) {
        FakeHistory h;
        for (int32_t token : state.tokens) h.append(token);
        h.write(hidden_);
      }
      if (!wanted) continue;
      logits_.resize(logits_.size() + static_cast<size_t>(options_.vocab));
      logits_of(state.tokens, std::span(logits_).last(static_cast<size_t>(options_.vocab)));
    }
    if (options_.recurrent) state.earliest_length = length - item.tentative;
  }

  static void spend(std::chrono::microseconds time) {
    if (time.count() > 0) std::this_thread::sleep_for(time);
  }

  FakeOptions options_;
  int used_ = 0;
  std::vector<float> logits_, hidden_;
  std::atomic<bool> running_{false};
};

inline FakeState::~FakeState() {
  model_.used_ -= reserved;
  --model_.live_states;
}

}  // namespace drafthorse::test
