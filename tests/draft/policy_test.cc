#include "draft/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace drafthorse {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Cost of n rows: 1 + slope * (n - 1).
std::vector<double> sloped(double slope) {
  std::vector<double> cost(17);
  for (int n = 1; n <= 16; ++n) cost[static_cast<size_t>(n)] = 1 + slope * (n - 1);
  return cost;
}

Acceptance trained(int evidence, double rate, int rounds = 200) {
  std::mt19937 random(3);
  Acceptance acceptance;
  for (int i = 0; i < rounds; ++i) {
    int accepted = 0;
    while (accepted < 8 && std::uniform_real_distribution<>(0, 1)(random) < rate) ++accepted;
    acceptance.observe(evidence, 8, accepted);
  }
  return acceptance;
}

TEST(Acceptance, FollowsWhatItSees) {
  for (double rate : {0.1, 0.5, 0.9}) {
    const auto acceptance = trained(1, rate, 2000);
    EXPECT_NEAR(acceptance.conditional(1, 1), rate, 0.25);
  }
  EXPECT_LT(trained(2, 0.0).conditional(2, 1), 0.05);
  EXPECT_GT(trained(2, 1.0).conditional(2, 16), 0.9);
}

TEST(Acceptance, DeeperRangesTakeAfterShallowOnes) {
  Acceptance acceptance;
  for (int i = 0; i < 50; ++i) acceptance.observe(3, 1, 0);
  EXPECT_LT(acceptance.conditional(3, 12), 0.1);
}

TEST(Acceptance, AnotherRequestStartsFromWhatThisOneSaw) {
  const auto good = trained(1, 1.0).next();  // the prior of class 1 is 0.35
  EXPECT_GT(good.conditional(1, 1), 0.9);
  auto bad = trained(4, 0.0).next();  // of class 4 it is 0.8
  EXPECT_NEAR(bad.conditional(4, 1), 0.4, 0.1);
  EXPECT_EQ(bad.conditional(3, 1), Acceptance().conditional(3, 1));
  for (int i = 0; i < 6; ++i) bad = bad.next();  // requests that show nothing: it is forgotten
  EXPECT_NEAR(bad.conditional(4, 1), 0.8, 0.05);
  auto fresh = good;
  for (int i = 0; i < 10; ++i) fresh.observe(1, 1, 0);
  EXPECT_LT(fresh.conditional(1, 1), 0.3);  // a start, no more
  EXPECT_LT(fresh.conditional(1, 9), 0.4);
}

// 1,000 tokens of a drafter whose steps bring `tokens` in `steps` times the time of one without drafts.
double time_per_token(int tokens, double steps) {
  Balance balance;
  double time = 0;
  int made = 0;
  while (made < 1000) {
    if (balance.allows()) {
      balance.observe(tokens, steps);
      time += steps;
      made += tokens;
    } else {
      time += 1;
      made += 1;
    }
  }
  return time / made;
}

TEST(Balance, ADrafterWhoseStepsDoNotPayCostsLittle) {
  EXPECT_LT(time_per_token(2, 2.3), 1.02);
  EXPECT_LT(time_per_token(1, 2), 1.05);
  EXPECT_NEAR(time_per_token(2, 1.9), 0.95, 1e-3);  // one that pays is left alone
}

TEST(Policy, WhatIsKnownOfADraftDecides) {
  const Acceptance half(Acceptance::Priors{0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  const auto cost = sloped(0.3);
  const std::vector<double> sure = {0.99, 0.99}, doubtful = {0.99, 0.05};
  DraftOffer offer{&half, 0, 2, 0.05, sure};
  EXPECT_EQ(best_drafts(offer, 1, 1, cost), 2);
  offer.known = doubtful;
  EXPECT_EQ(best_drafts(offer, 1, 1, cost), 1);
  offer.known = std::span(doubtful).last(1);
  offer.length = 8;
  EXPECT_EQ(best_drafts(offer, 1, 1, cost), 0);
  offer.known = std::span(sure).first(1);
  EXPECT_EQ(best_drafts(offer, 1, 1, sloped(0.1)), 2);  // it pays to make one more
}

TEST(Policy, ACertainDraftThatIsNearlyFreeIsVerifiedWhole) {
  const auto acceptance = trained(5, 1.0);
  const DraftOffer offer{&acceptance, 5, 16};
  EXPECT_THAT(allot_drafts({&offer, 1}, 1, 1, sloped(0.05)), ElementsAre(16));
}

TEST(Policy, NothingIsVerifiedWhereARowCostsAsMuchAsAToken) {
  const auto acceptance = trained(5, 1.0);
  const DraftOffer offer{&acceptance, 5, 16};
  EXPECT_THAT(allot_drafts({&offer, 1}, 1, 1, sloped(1.0)), ElementsAre(0));
}

TEST(Policy, AHopelessDraftIsLeftOut) {
  const auto good = trained(5, 1.0), bad = trained(1, 0.0);
  const DraftOffer offers[] = {{&bad, 1, 16}, {&good, 5, 16}};
  const auto allotted = allot_drafts(offers, 2, 2, sloped(0.05));
  EXPECT_EQ(allotted[0], 0);
  EXPECT_GT(allotted[1], 8);
}

TEST(Policy, AStepInTheCostIsJumpedOver) {
  // 2 to 8 rows cost the same: one more row never pays, seven more do.
  std::vector<double> cost = sloped(0.0);
  for (int n = 2; n <= 8; ++n) cost[static_cast<size_t>(n)] = 2.2;
  for (int n = 9; n <= 16; ++n) cost[static_cast<size_t>(n)] = 9;
  const auto acceptance = trained(5, 1.0);
  const DraftOffer offer{&acceptance, 5, 16};
  EXPECT_THAT(allot_drafts({&offer, 1}, 1, 1, cost), ElementsAre(7));
}

TEST(Policy, TheTableGoesOnInAStraightLine) {
  const auto cost = sloped(0.5);
  EXPECT_DOUBLE_EQ(step_cost(cost, 16), 8.5);
  EXPECT_DOUBLE_EQ(step_cost(cost, 20), 10.5);
  EXPECT_DOUBLE_EQ(step_cost(cost, 1), 1);
}

TEST(Shadow, LearnsFromDraftsThatWereNotVerified) {
  Acceptance acceptance;
  Shadow shadow;
  const double before = acceptance.conditional(1, 1);
  for (int i = 0; i < 30; ++i) {
    shadow.watch(1, {5, 6});
    shadow.extend(std::vector<int32_t>{5, 6, 7}, acceptance);
  }
  EXPECT_GT(acceptance.conditional(1, 1), before + 0.3);
  for (int i = 0; i < 60; ++i) {
    shadow.watch(1, {5, 6});
    shadow.extend(std::vector<int32_t>{9}, acceptance);
  }
  EXPECT_LT(acceptance.conditional(1, 1), 0.1);
}

TEST(Shadow, ADraftSpansSeveralSteps) {
  Acceptance acceptance;
  Shadow shadow;
  for (int i = 0; i < 50; ++i) {
    shadow.watch(2, {1, 2, 3});
    shadow.extend(std::vector<int32_t>{1}, acceptance);
    shadow.watch(2, {8, 8, 8});  // ignored: the first is still being watched
    shadow.extend(std::vector<int32_t>{2}, acceptance);
    shadow.extend(std::vector<int32_t>{9}, acceptance);
  }
  EXPECT_GT(acceptance.conditional(2, 2), 0.8);
  EXPECT_LT(acceptance.conditional(2, 3), 0.5);
}

// A stream in which every proposed token is right with the same probability: the time that the policy takes, over
// that without drafts, never exceeds 1 / 0.98, whatever the rate, the evidence and the cost of a row.
double relative_time(double rate, int evidence, double slope, int tokens, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<> uniform(0, 1);
  const auto cost = sloped(slope);
  Acceptance acceptance;
  Shadow shadow;
  double time = 0;
  for (int made = 0; made < tokens;) {
    std::vector<int32_t> draft(16);
    for (auto& token : draft) token = uniform(random) < rate ? 1 : 0;  // 1: what the model will say
    const DraftOffer offer{&acceptance, evidence, 16};
    const int k = allot_drafts({&offer, 1}, 1, 1, cost)[0];
    int accepted = 0;
    while (accepted < k && draft[static_cast<size_t>(accepted)] == 1) ++accepted;
    time += cost[static_cast<size_t>(std::min(1 + k, 16))];
    if (k == 0) shadow.watch(evidence, draft);
    shadow.extend(std::vector<int32_t>(static_cast<size_t>(accepted) + 1, 1), acceptance);
    if (k > 0) acceptance.observe(evidence, k, accepted);
    made += accepted + 1;
  }
  return time / tokens;
}

TEST(Policy, NeverSlowerThanWithoutDrafts) {
  for (int evidence = 0; evidence < kEvidenceClasses; ++evidence)
    for (double slope : {0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0})
      for (double rate : {0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0})
        EXPECT_LT(relative_time(rate, evidence, slope, 2000, 17), 1 / 0.98)
            << "evidence " << evidence << ", row " << slope << ", rate " << rate;
}

TEST(Policy, PaysWhereItCan) {
  EXPECT_LT(relative_time(1.0, 5, 0.05, 2000, 1), 0.15);
  EXPECT_LT(relative_time(0.9, 3, 0.05, 2000, 1), 0.45);
  EXPECT_LT(relative_time(0.7, 1, 0.1, 2000, 1), 0.75);
}

}  // namespace
}  // namespace drafthorse
