// What the reference means by DeltaNet, mixtures, gated attention and drafting heads.

#include "backend/reference/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/moe.h"
#include "backend/support/random_network.h"
#include "backend/support/rollback.h"
#include "backend/support/run_model.h"

namespace drafthorse {
namespace {

using namespace drafthorse::test;  // NOLINT: the tests' own helpers

std::unique_ptr<Model> companion(Model& model, const Network& network) {
  Result<std::unique_ptr<Model>> head = model.load_companion(network);
  if (!head) throw std::runtime_error(head.error().message);
  return std::move(*head);
}

// Small ones: the reference takes its time.
std::vector<RandomNetworkOptions> hybrids() {
  std::vector<RandomNetworkOptions> all = {hybrid_options(), hybrid_moe_options(), hybrid_options()};
  for (RandomNetworkOptions& o : all) {
    o.hidden = o.inner = o.vocab = 64, o.expert_inner = 32, o.head_dim = o.key_dim = o.value_dim = 16, o.rope_dims = 4;
  }
  all[1].shared_gate = false, all[1].normalised = false;
  all[2].value_heads = 6, all[2].tiled_heads = all[2].sigmoid_gate = true, all[2].kernel = 2;
  return all;
}

TEST(Reference, HybridRowsDoNotDependOnChunks) {
  for (const RandomNetworkOptions& options : hybrids()) {
    const RandomNetwork random(options);
    for (bool quantised : {false, true}) {
      const std::unique_ptr<Model> model = load(random.network, test::reference(quantised));
      const Text text = random_text(70, *model, false, 3);
      const std::unique_ptr<State> whole = model->new_state();
      const Rows expected = run_rows(*model, *whole, text, 0, 70);
      for (float logit : expected.logits) ASSERT_TRUE(std::isfinite(logit));
      for (size_t chunk : {1, 2, 3, 64}) {
        const std::unique_ptr<State> state = model->new_state();
        for (size_t at = 0; at < 70; at += chunk) {
          const size_t n = std::min<size_t>(chunk, 70 - at);
          ASSERT_TRUE(same_rows(*model, run_rows(*model, *state, text, at, n), expected, at, n)) << at << " by " << n;
        }
      }
    }
  }
}

TEST(Reference, RollbackIsAFreshRun) {
  unsigned seed = 1;
  for (const RandomNetworkOptions& options : hybrids()) {
    const RandomNetwork random(options);
    for (bool quantised : {false, true}) {
      const std::unique_ptr<Model> model = load(random.network, test::reference(quantised));
      expect_rollback_is_a_fresh_run(*model, false, 250, ++seed);
      const std::unique_ptr<Model> head = companion(*model, *random.network.mtp);
      expect_rollback_is_a_fresh_run(*head, true, 250, ++seed);
    }
  }
}

TEST(Reference, OnlyTentativeRowsCanBeTakenBack) {
  const RandomNetwork random(hybrid_options());
  const std::unique_ptr<Model> model = load(random.network, test::reference(false));
  const std::unique_ptr<State> state = model->new_state();
  const Text text = random_text(20, *model, false, 5);
  (void)run_rows(*model, *state, text, 0, 10, 4);
  EXPECT_EQ(state->length(), 10);
  EXPECT_EQ(state->earliest(), 6);
  EXPECT_THROW(state->truncate(5), std::logic_error);
  state->truncate(8);
  EXPECT_EQ(state->earliest(), 6);
  EXPECT_THROW(state->truncate(9), std::logic_error);
  (void)run_rows(*model, *state, text, 8, 2);
  EXPECT_EQ(state->earliest(), 10);
  state->truncate(0);
  EXPECT_EQ(state->earliest(), 1);
  (void)run_rows(*model, *state, text, 0, 3, 3);
  EXPECT_EQ(state->earliest(), 1);
  EXPECT_THROW((void)run_rows(*model, *state, text, 3, 2, 3), std::logic_error);
  EXPECT_THROW((void)run_rows(*model, *state, text, 3, 17, 17), std::logic_error);
  EXPECT_EQ(state->length(), 3);

  RandomNetworkOptions plain;
  const RandomNetwork attention(plain);
  const std::unique_ptr<Model> other = load(attention.network, test::reference(false));
  const std::unique_ptr<State> positions = other->new_state();
  (void)run_rows(*other, *positions, random_text(10, *other, false, 5), 0, 10, 2);
  EXPECT_EQ(positions->earliest(), 1);
  positions->truncate(1);
  EXPECT_EQ(positions->length(), 1);
}

TEST(Reference, AStoppedRunLeavesTouchedRecurrentStatesEmpty) {
  const RandomNetwork random(hybrid_options());
  const std::unique_ptr<Model> model = load(random.network, test::reference(false));
  const Text text = random_text(20, *model, false, 6);
  const std::unique_ptr<State> fresh = model->new_state();
  const Rows expected = run_rows(*model, *fresh, text, 0, 20);
  for (int polls : {0, 1, 5}) {  // before anything, after a block of the first item, after one of the second
    const std::unique_ptr<State> a = model->new_state(), b = model->new_state();
    (void)run_rows(*model, *a, text, 0, 5, 2);
    (void)run_rows(*model, *b, text, 0, 7);
    const std::span<const int32_t> tokens(text.tokens);
    const BatchItem batch[] = {{a.get(), tokens.subspan(5, 3)}, {b.get(), tokens.subspan(7, 3)}};
    int left = polls;
    const RunOutput out = model->run(batch, [&] { return left-- == 0; });
    EXPECT_TRUE(out.stopped);
    EXPECT_EQ(out.rows, 0);
    EXPECT_EQ(a->length(), polls == 0 ? 5 : 0);
    EXPECT_EQ(b->length(), polls < 5 ? 7 : 0);
    for (State* state : {a.get(), b.get()}) {
      const size_t at = size_t(state->length());
      EXPECT_TRUE(same_rows(*model, run_rows(*model, *state, text, at, 20 - at), expected, at, 20 - at));
    }
  }
}

TEST(Reference, HiddenVectorsComeInItemOrderBeforeOrAfterTheNorm) {
  const RandomNetwork random(hybrid_options());
  const std::unique_ptr<Model> model = load(random.network, test::reference(false));
  const size_t hidden = size_t(model->hidden());
  const Text text = random_text(6, *model, false, 7);
  const std::unique_ptr<State> a = model->new_state(), b = model->new_state(), c = model->new_state();
  const std::span<const int32_t> tokens(text.tokens);
  const BatchItem batch[] = {{a.get(), tokens, LogitRows::last, 0, Hidden::before_norm},
                             {b.get(), tokens, LogitRows::all},
                             {c.get(), tokens, LogitRows::none, 0, Hidden::after_norm}};
  const RunOutput out = model->run(batch);
  EXPECT_EQ(out.rows, 1 + 6);
  ASSERT_EQ(out.logits.size(), 7 * size_t(model->vocab()));
  ASSERT_EQ(out.hidden.size(), 12 * hidden);
  const std::vector<float> before(out.hidden.begin(), out.hidden.begin() + std::ptrdiff_t(6 * hidden));
  for (size_t r = 0; r < 6; ++r) {
    std::vector<float> row(before.begin() + std::ptrdiff_t(r * hidden),
                           before.begin() + std::ptrdiff_t((r + 1) * hidden));
    reference::norm(random.network.final_norm, row);
    EXPECT_TRUE(same_bits(row, out.hidden.subspan((6 + r) * hidden, hidden)));
  }
}

}  // namespace
}  // namespace drafthorse
