#pragma once
// Rounds of drafting with random acceptance, against one run of the true tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "backend/support/run_model.h"

namespace drafthorse::test {

// Logits and hidden vectors of rows, one after another.
struct Rows {
  std::vector<float> logits, hidden;
};

// Tokens, and for a drafting head the hidden vectors that they are joined with.
struct Text {
  std::vector<int32_t> tokens;
  std::vector<float> joined;  // [tokens, hidden] or empty
};

inline Text random_text(int n, const Model& model, bool joined, unsigned seed) {
  Text text{random_tokens(n, model.vocab(), seed), {}};
  std::mt19937 random(seed + 1);
  std::normal_distribution<float> normal;
  if (joined) text.joined.resize(size_t(n) * size_t(model.hidden()));
  for (float& h : text.joined) h = normal(random);
  return text;
}

// Runs tokens [first, first + n) of the text, the last `tentative` of them takeable back. All rows' results.
inline Rows run_rows(Model& model, State& state, const Text& text, size_t first, size_t n, int tentative = 0) {
  BatchItem item{&state, std::span(text.tokens).subspan(first, n), LogitRows::all, tentative, Hidden::before_norm};
  const size_t hidden = size_t(model.hidden());
  if (!text.joined.empty()) item.joined = std::span(text.joined).subspan(first * hidden, n * hidden);
  const RunOutput out = model.run({&item, 1});
  return {{out.logits.begin(), out.logits.end()}, {out.hidden.begin(), out.hidden.end()}};
}

// Whether rows [0, n) of `got` are rows [at, at + n) of `expected`.
inline bool same_rows(const Model& model, const Rows& got, const Rows& expected, size_t at, size_t n) {
  const size_t vocab = size_t(model.vocab()), hidden = size_t(model.hidden());
  return same_bits(std::span(got.logits).first(n * vocab), std::span(expected.logits).subspan(at * vocab, n * vocab)) &&
         same_bits(std::span(got.hidden).first(n * hidden),
                   std::span(expected.hidden).subspan(at * hidden, n * hidden));
}

// Drafts of random length of which a random number are the true tokens, each round taken back to what was accepted (or
// to less), with ordinary runs in between: every row of the true text has the bits of one fresh run.
inline void expect_rollback_is_a_fresh_run(Model& model, bool joined, int rounds, unsigned seed) {
  const size_t length = std::min<size_t>(size_t(rounds) * 3, size_t(model.context()));
  const Text text = random_text(int(length), model, joined, seed), wrong = random_text(40, model, joined, seed + 7);
  const std::unique_ptr<State> fresh = model.new_state(), state = model.new_state();
  const Rows expected = run_rows(model, *fresh, text, 0, length);
  std::mt19937 dice(seed);
  const auto below = [&](size_t n) { return size_t(dice() % n); };
  for (int round = 0; round < rounds; ++round) {
    const size_t at = size_t(state->length()), left = length - at;
    if (left == 0 || below(60) == 0) {  // start again
      state->truncate(0);
      ASSERT_EQ(state->length(), 0);
      continue;
    }
    if (below(6) == 0) {  // an ordinary run: nothing to take back
      const size_t n = 1 + below(std::min<size_t>(left, 9));
      ASSERT_TRUE(same_rows(model, run_rows(model, *state, text, at, n), expected, at, n)) << "round " << round;
      continue;
    }
    // `sure` true tokens, then drafts: `right` true ones and `bad` others.
    const size_t sure = std::min<size_t>(left, below(4)), right = std::min(left - sure, below(kMostTentative + 1));
    const size_t bad = below(kMostTentative + 1 - right), n = sure + right + bad;
    if (n == 0 || at + n > size_t(model.context())) continue;
    Text draft;
    const size_t hidden = joined ? size_t(model.hidden()) : 0;
    const auto append = [&](const Text& from, size_t first, size_t count) {
      draft.tokens.insert(draft.tokens.end(), from.tokens.begin() + first, from.tokens.begin() + first + count);
      draft.joined.insert(draft.joined.end(), from.joined.begin() + first * hidden,
                          from.joined.begin() + (first + count) * hidden);
    };
    append(text, at, sure + right);
    append(wrong, below(20), bad);
    const Rows got = run_rows(model, *state, draft, 0, n, int(right + bad));
    ASSERT_TRUE(same_rows(model, got, expected, at, sure + right)) << "round " << round;
    ASSERT_EQ(size_t(state->length()), at + n);
    ASSERT_LE(size_t(state->earliest()), std::max<size_t>(at + sure, 1));
    // What was accepted, now and then one row at a time, now and then less than that.
    size_t keep = at + sure + right;
    if (below(4) == 0) keep = at + sure + below(right + 1);
    if (below(2) == 0 && bad > 0) state->truncate(int(at + n - 1));
    state->truncate(int(keep));
    ASSERT_EQ(size_t(state->length()), keep);
  }
}

// A state with recurrent parts goes back over its tentative rows and to 0, and nowhere else; a run that asks for more
// tentative rows than it has, or than may be, leaves it as it was.
inline void expect_only_tentative_rows_go_back(Model& model) {
  const std::unique_ptr<State> state = model.new_state();
  const Text text = random_text(20, model, false, 5);
  (void)run_rows(model, *state, text, 0, 10, 4);
  EXPECT_EQ(state->length(), 10);
  EXPECT_EQ(state->earliest(), 6);
  EXPECT_THROW(state->truncate(5), std::logic_error);
  state->truncate(8);
  EXPECT_EQ(state->earliest(), 6);
  EXPECT_THROW(state->truncate(9), std::logic_error);
  (void)run_rows(model, *state, text, 8, 2);
  EXPECT_EQ(state->earliest(), 10);
  state->truncate(0);
  EXPECT_EQ(state->earliest(), 1);
  (void)run_rows(model, *state, text, 0, 3, 3);
  EXPECT_EQ(state->earliest(), 1);
  EXPECT_THROW((void)run_rows(model, *state, text, 3, 2, 3), std::logic_error);
  EXPECT_THROW((void)run_rows(model, *state, text, 3, 17, 17), std::logic_error);
  EXPECT_EQ(state->length(), 3);
}

}  // namespace drafthorse::test
