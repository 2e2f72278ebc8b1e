#include "draft/mtp.h"

#include <gtest/gtest.h>

#include "draft/mtp_probe.h"
#include "draft/policy.h"
#include "support/fake_head.h"

namespace drafthorse {
namespace {

using test::FakeHead;
using test::FakeModel;
using test::FakeOptions;
using test::kFakeHidden;

std::vector<int32_t> some_text(int n) {
  std::vector<int32_t> text;
  for (int i = 0; i < n; ++i) text.push_back(static_cast<int32_t>(test::mix(static_cast<uint64_t>(i)) % 60));
  return text;
}

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Hidden vectors of the model over `tokens`.
std::vector<float> hidden_of(FakeModel& model, std::span<const int32_t> tokens) {
  const auto state = model.new_state();
  EXPECT_TRUE(model.reserve(*state, static_cast<int>(tokens.size())));
  BatchItem item{state.get(), tokens, LogitRows::none};
  item.hidden = Hidden::after_norm;
  const auto out = model.run({&item, 1}, {}).hidden;
  return {out.begin(), out.end()};
}

// What the model says after `tokens`, `count` times over.
std::vector<int32_t> truth_after(FakeModel& model, std::vector<int32_t> tokens, int count) {
  std::vector<int32_t> found;
  std::vector<float> logits(static_cast<size_t>(model.vocab()));
  for (int i = 0; i < count; ++i) {
    model.logits_of(tokens, logits);
    found.push_back(likeliest(logits));
    tokens.push_back(found.back());
  }
  return found;
}

class Mtp : public ::testing::Test {
 protected:
  std::vector<int32_t> draft(MtpHistory& history, std::span<const int32_t> tokens, int depth) {
    MtpItem item{&history, tokens, depth, {}, false};
    draft_with_head(head, {&item, 1}, [](size_t, auto logits, size_t) { return MtpChoice{likeliest(logits)}; });
    return item.draft;
  }
  std::span<const float> rows(int from, int to) const {
    return std::span(hidden).subspan(static_cast<size_t>(from) * kFakeHidden,
                                     static_cast<size_t>(to - from) * kFakeHidden);
  }

  FakeModel model{FakeOptions{.repetitiveness = 0}};
  FakeHead head{model, 1.0};
  const std::vector<int32_t> text = some_text(80);
  const std::vector<float> hidden = hidden_of(model, text);
};

TEST_F(Mtp, DraftsWhatTheModelWouldSay) {
  MtpHistory history(head);
  history.extend(0, rows(0, 40));
  const std::vector<int32_t> tokens(text.begin(), text.begin() + 41);
  EXPECT_EQ(draft(history, tokens, 5), truth_after(model, tokens, 5));
  EXPECT_EQ(history.length(), 40);
  EXPECT_EQ(history.pending_rows(), 0);
  EXPECT_TRUE(draft(history, tokens, 5).empty());  // nothing new to go on from
  history.extend(40, rows(40, 42));
  const std::vector<int32_t> more(text.begin(), text.begin() + 43);
  EXPECT_EQ(draft(history, more, 3), truth_after(model, more, 3));
}

TEST_F(Mtp, WithoutADraftTheLastPositionStaysPending) {
  MtpHistory history(head);
  history.extend(0, rows(0, 30));
  const std::vector<int32_t> tokens(text.begin(), text.begin() + 31);
  EXPECT_TRUE(draft(history, tokens, 0).empty());
  EXPECT_EQ(history.pending_rows(), 1);
  EXPECT_EQ(draft(history, tokens, 4), truth_after(model, tokens, 4));
}

TEST_F(Mtp, TruncatingForgetsTheTokenThatFollowed) {
  MtpHistory history(head);
  history.extend(0, rows(0, 40));
  (void)draft(history, std::vector<int32_t>(text.begin(), text.begin() + 41), 2);  // pairs position 39 with token 40
  history.truncate(40);
  EXPECT_EQ(history.length(), 39);
  history.extend(40, rows(40, 44));  // position 39 counts as a zero vector
  EXPECT_EQ(history.length(), 44);
  const std::vector<int32_t> tokens(text.begin(), text.begin() + 45);
  EXPECT_EQ(draft(history, tokens, 2), truth_after(model, tokens, 2));
  EXPECT_THROW(history.extend(20, rows(20, 21)), std::logic_error);
}

TEST_F(Mtp, AHeadWithoutMemorySaysSo) {
  FakeHead small(model, 1.0, 10);
  MtpHistory history(small);
  history.extend(0, rows(0, 40));
  MtpItem item{&history, text, 3, {}, false};
  draft_with_head(small, {&item, 1}, [](size_t, auto logits, size_t) { return MtpChoice{likeliest(logits)}; });
  EXPECT_TRUE(item.failed);
  EXPECT_TRUE(item.draft.empty());
}

TEST_F(Mtp, AgreementIsTheShareOfRightDrafts) {
  const auto all = head_agreement(model, head, Hidden::after_norm, text);
  ASSERT_TRUE(all);
  EXPECT_EQ(*all, 1.0);
  FakeHead half(model, 0.5);
  const auto some = head_agreement(model, half, Hidden::after_norm, some_text(400));
  ASSERT_TRUE(some);
  EXPECT_NEAR(*some, 0.5, 0.1);
}

// ---- The policy's part ----

TEST(Policy, MakingDraftsCounts) {
  const std::vector<double> cost = [] {
    std::vector<double> c(17, 1.0);
    for (size_t n = 1; n <= 16; ++n) c[n] = 1 + 0.1 * static_cast<double>(n - 1);
    return c;
  }();
  Acceptance acceptance(Acceptance::Priors{0.8, 0.8, 0.8, 0.8, 0.8, 0.8});
  DraftOffer offer{&acceptance, 0, 8, 0.0};
  const int free = allot_drafts({&offer, 1}, 1, 1, cost)[0];
  offer.making = 0.2;
  const int dear = allot_drafts({&offer, 1}, 1, 1, cost)[0];
  offer.making = 2;
  EXPECT_GT(free, dear);
  EXPECT_GT(dear, 0);
  EXPECT_EQ(allot_drafts({&offer, 1}, 1, 1, cost)[0], 0);
}

TEST(Policy, BestRateIsThatOfTheBestLength) {
  std::vector<double> cost(17, 1.0);
  for (size_t n = 1; n <= 16; ++n) cost[n] = 1 + 0.5 * static_cast<double>(n - 1);
  const Acceptance acceptance(Acceptance::Priors{0.9, 0.9, 0.9, 0.9, 0.9, 0.9});
  DraftOffer offer{&acceptance, 0, 0, 0.0};
  EXPECT_DOUBLE_EQ(best_rate(offer, 1, 1, cost), 1.0);
  offer.length = 1;
  EXPECT_DOUBLE_EQ(best_rate(offer, 1, 1, cost), 1.9 / 1.5);
  offer.making = 0.4;
  EXPECT_DOUBLE_EQ(best_rate(offer, 1, 1, cost), 1.0);
}

TEST(Policy, RetriesBecomeRarer) {
  Retry retry;
  std::vector<int> when;
  for (int step = 1; step <= 1200; ++step)
    if (retry.due()) when.push_back(step);
  ASSERT_GE(when.size(), 4u);
  EXPECT_EQ(when[0], 32);
  EXPECT_EQ(when[1] - when[0], 64);
  EXPECT_EQ(when[3] - when[2], 256);
  EXPECT_EQ(when.back() - when[when.size() - 2], 256);
  retry.reset();
  int next = 1;
  while (!retry.due()) ++next;
  EXPECT_EQ(next, 32);
}

}  // namespace
}  // namespace drafthorse
