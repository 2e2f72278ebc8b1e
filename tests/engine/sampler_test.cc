#include "engine/sampler.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <random>
#include <set>

#include "core/fixed_double.h"
#include "core/rng.h"
#include "engine/row_scan.h"

namespace drafthorse {
namespace {

std::vector<float> random_logits(size_t n, unsigned seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (auto& x : logits) x = normal(random);
  return logits;
}

TokenEvent sample(const std::vector<float>& logits, const SamplingParams& params, uint64_t position = 0) {
  SamplerScratch scratch;
  auto event = Sampler(params).sample(logits, position, scratch);
  EXPECT_TRUE(event) << event.error().message;
  return event ? *event : TokenEvent{};
}

// The documented order, with full sorts and plain loops.
int32_t naive_sample(std::vector<float> logits, const SamplingParams& p, uint64_t position) {
  for (auto [token, bias] : p.logit_bias) logits[static_cast<size_t>(token)] += bias;
  const float top = *std::max_element(logits.begin(), logits.end());
  std::vector<std::pair<float, int32_t>> all;
  for (size_t i = 0; i < logits.size(); ++i)
    all.emplace_back((logits[i] - top) * (1.0f / p.temperature), static_cast<int32_t>(i));
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.first > b.first; });
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < all.size()) all.resize(static_cast<size_t>(p.top_k));
  if (p.top_p < 1) {
    double total = 0, sum = 0;
    for (auto& c : all) total += token_weight(c.first);
    size_t n = 0;
    while (n < all.size() && sum < total * p.top_p) sum += token_weight(all[n++].first);
    all.resize(std::max<size_t>(n, 1));
  }
  int32_t best = -1;
  double best_score = 0;
  for (auto& [z, id] : all) {
    if (p.min_p > 0 && z < fixed_log(p.min_p)) continue;
    const double score =
        z + gumbel(token_bits(p.seed, position, static_cast<uint32_t>(id) / 4)[static_cast<size_t>(id) % 4]);
    if (best < 0 || score > best_score || (score == best_score && id < best)) {
      best = id;
      best_score = score;
    }
  }
  return best;
}

TEST(Rng, PhiloxIsThePublishedFunction) {
  // Known answers of the authors' test vectors (kat_vectors, philox4x32 10).
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(FixedDouble, IsCloseToTheLibrary) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::exp(std::uniform_real_distribution<>(-600, 600)(random));
    EXPECT_NEAR(fixed_log(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x))));
    const double y = std::uniform_real_distribution<>(-690, 690)(random);
    EXPECT_NEAR(fixed_exp(y) / std::exp(y), 1, 1e-15);
  }
  EXPECT_EQ(fixed_log(1), 0);
  EXPECT_EQ(fixed_exp(0), 1);
  EXPECT_EQ(fixed_exp(-800), 0);
  EXPECT_EQ(fixed_exp(-std::numeric_limits<double>::infinity()), 0);
}

TEST(Rng, GumbelNoiseIsFiniteAtBothEnds) {
  EXPECT_NEAR(gumbel(0), 22.87, 0.01);
  EXPECT_NEAR(gumbel(0xffffffff), -3.13, 0.01);
  EXPECT_LT(gumbel(0), kLargestGumbel);
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
  SamplingParams p;
  p.temperature = 0;
  auto logits = random_logits(1000, 1);
  logits[300] = logits[700] = 50;
  EXPECT_EQ(sample(logits, p).token, 300);
  logits[999] = 51;
  EXPECT_EQ(sample(logits, p).token, 999);
}

RC_GTEST_PROP(Sampler, EqualsThePlainForm, ()) {
  SamplingParams p;
  p.temperature = *rc::gen::element(0.05f, 0.7f, 1.0f, 2.0f);
  p.top_p = *rc::gen::element(1.0f, 0.999f, 0.95f, 0.5f, 0.01f, 0.0f);
  p.min_p = *rc::gen::element(0.0f, 0.05f, 0.5f);
  p.top_k = *rc::gen::element(0, 1, 5, 40, 5000);
  p.seed = *rc::gen::arbitrary<uint64_t>();
  const auto n = static_cast<size_t>(*rc::gen::inRange(1, 3000));
  auto logits = random_logits(n, *rc::gen::arbitrary<unsigned>(), *rc::gen::element(0.1f, 2.0f, 8.0f));
  // Equal logits, to see that ties are broken by id.
  if (*rc::gen::arbitrary<bool>())
    for (auto& x : logits) x = std::round(x);
  if (*rc::gen::arbitrary<bool>()) p.logit_bias = {{static_cast<int32_t>(n / 2), 5.0f}};
  const auto position = *rc::gen::arbitrary<uint64_t>();
  RC_ASSERT(sample(logits, p, position).token == naive_sample(logits, p, position));
}

TEST(Sampler, WeightsAreThoseOfTheExponential) {
  double worst = 0;
  for (float z = -79.5f; z <= 0; z += 0.00137f)
    worst = std::max(worst, std::abs(token_weight(z) / std::exp(static_cast<double>(z)) - 1));
  EXPECT_LT(worst, 1e-7);
  EXPECT_EQ(token_weight(0), 1);
  EXPECT_EQ(token_weight(-81), 0);
  EXPECT_EQ(token_weight(-std::numeric_limits<float>::infinity()), 0);
  for (size_t n : {1u, 3u, 256u, 1003u}) {
    const auto logits = random_logits(n, static_cast<unsigned>(n), 20);
    const float top = *std::max_element(logits.begin(), logits.end());
    const RowWeights weights = row_weights(logits, {top, 0.7f});
    double total = 0;
    for (float x : logits) total += token_weight((x - top) * 0.7f);
    EXPECT_NEAR(weights.total(), total, 1e-12 * total);
    EXPECT_TRUE(std::is_sorted(weights.above.begin(), weights.above.end()));
  }
}

// A vocabulary of which nearly all is left, or next to nothing, or much of it is ruled out.
TEST(Sampler, LargeRowsEqualThePlainForm) {
  auto logits = random_logits(50001, 9, 1);
  for (size_t i = 0; i < logits.size(); i += 3) logits[i] = -std::numeric_limits<float>::infinity();
  for (float temperature : {0.1f, 1.0f, 2.0f}) {
    for (float top_p : {0.3f, 0.99f, 1.0f}) {
      SamplingParams p;
      p.temperature = temperature;
      p.top_p = top_p;
      for (uint64_t position = 0; position < 6; ++position) {
        p.seed = position * 77;
        EXPECT_EQ(sample(logits, p, position).token, naive_sample(logits, p, position)) << temperature << ' ' << top_p;
      }
    }
  }
}

TEST(Sampler, TokensFollowTheDistribution) {
  SamplingParams p;
  const std::vector<float> logits = {0, std::log(2.0f), std::log(4.0f), std::log(1.0f), -1e30f};
  std::vector<int> counts(5);
  const int draws = 80000;
  for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(sample(logits, p, static_cast<uint64_t>(i)).token)];
  const double expected[] = {1.0 / 8, 2.0 / 8, 4.0 / 8, 1.0 / 8, 0};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(counts[i] / static_cast<double>(draws), expected[i], 0.007);
}

TEST(Sampler, SeedAndPositionDecide) {
  SamplingParams a, b;
  b.seed = 1;
  const auto logits = random_logits(500, 2, 0.5f);
  int differing = 0;
  std::set<int32_t> seen;
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(sample(logits, a, i).token, sample(logits, a, i).token);
    differing += sample(logits, a, i).token != sample(logits, b, i).token;
    seen.insert(sample(logits, a, i).token);
  }
  EXPECT_GT(differing, 40);
  EXPECT_GT(seen.size(), 30u);
}

TEST(Sampler, PenaltiesMoveTheLogitsAsDefined) {
  SamplingParams p;
  p.temperature = 0;
  SamplerScratch scratch;
  const auto best = [&](Sampler& s, std::vector<float> logits) { return s.sample(logits, 0, scratch)->token; };
  {
    p.repetition_penalty = 2;  // 3 / 2 < 2; a negative logit is multiplied
    Sampler s(p);
    s.extend_prompt(std::vector<int32_t>{0});
    EXPECT_EQ(best(s, {3, 2, -1}), 1);
    EXPECT_EQ(best(s, {5, 2, -1}), 0);
    EXPECT_EQ(best(s, {-1, -1.5f, -3}), 1);
  }
  p.repetition_penalty = 1;
  {
    p.presence_penalty = 1.5f;  // once, whatever the count; the prompt does not count
    Sampler s(p);
    s.extend_prompt(std::vector<int32_t>{1});
    s.extend_output(0);
    s.extend_output(0);
    EXPECT_EQ(best(s, {3, 2, 0}), 1);
    EXPECT_EQ(best(s, {4, 2, 0}), 0);
  }
  p.presence_penalty = 0;
  {
    p.frequency_penalty = 1;
    Sampler s(p);
    s.extend_output(0);
    EXPECT_EQ(best(s, {3.5f, 2, 0}), 0);
    s.extend_output(0);
    EXPECT_EQ(best(s, {3.5f, 2, 0}), 1);
  }
}

TEST(Sampler, LogprobsAreThoseOfTheModel) {
  SamplingParams p;
  p.temperature = 0;
  p.logprobs = true;
  p.top_logprobs = 3;
  p.logit_bias = {{3, 100}};  // changes the choice, not the report
  const std::vector<float> logits = {std::log(4.0f), std::log(2.0f), std::log(1.0f), std::log(1.0f)};
  const auto event = sample(logits, p);
  EXPECT_EQ(event.token, 3);
  EXPECT_NEAR(event.logprob, std::log(1.0 / 8), 1e-6);
  ASSERT_EQ(event.top.size(), 3u);
  EXPECT_EQ(event.top[0].token, 0);
  EXPECT_NEAR(event.top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(event.top[2].token, 2);
}

TEST(Sampler, WhatIsNotFiniteIsAnError) {
  SamplerScratch scratch;
  for (float temperature : {0.0f, 1.0f}) {
    SamplingParams p;
    p.temperature = temperature;
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (size_t at : {0u, 17u, 99u}) {
        auto logits = random_logits(100, 1);
        logits[at] = bad;
        EXPECT_FALSE(Sampler(p).sample(logits, 0, scratch));
      }
    }
    const std::vector<float> nothing(100, -std::numeric_limits<float>::infinity());
    EXPECT_FALSE(Sampler(p).sample(nothing, 0, scratch));
    auto masked = nothing;
    masked[42] = -5;
    EXPECT_EQ(Sampler(p).sample(masked, 0, scratch)->token, 42);
  }
}

TEST(Sampler, ExtremeTemperaturesAreSafe) {
  const auto logits = random_logits(1000, 4, 30);
  SamplingParams cold, hot;
  cold.temperature = 1e-40f;
  hot.temperature = 100;
  EXPECT_EQ(sample(logits, cold).token, std::max_element(logits.begin(), logits.end()) - logits.begin());
  EXPECT_GE(sample(logits, hot).token, 0);
}

TEST(Sampler, ValidationNamesTheField) {
  const auto field = [](auto change) {
    SamplingParams p;
    change(p);
    auto status = validate_sampling(p, 100);
    return status ? std::string() : status.error().param;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(field([](auto&) {}), "");
  EXPECT_EQ(field([](auto& p) { p.temperature = -1; }), "temperature");
  EXPECT_EQ(field([&](auto& p) { p.temperature = nan; }), "temperature");
  EXPECT_EQ(field([](auto& p) { p.top_p = 0; }), "");
  EXPECT_EQ(field([](auto& p) { p.top_p = -0.1f; }), "top_p");
  EXPECT_EQ(field([](auto& p) { p.top_p = 1.1f; }), "top_p");
  EXPECT_EQ(field([](auto& p) { p.min_p = 1.5f; }), "min_p");
  EXPECT_EQ(field([](auto& p) { p.top_k = -1; }), "top_k");
  EXPECT_EQ(field([](auto& p) { p.repetition_penalty = 0; }), "repetition_penalty");
  EXPECT_EQ(field([&](auto& p) { p.presence_penalty = nan; }), "presence_penalty");
  EXPECT_EQ(field([](auto& p) { p.top_logprobs = 21; }), "top_logprobs");
  EXPECT_EQ(field([](auto& p) { p.logit_bias = {{100, 1.0f}}; }), "logit_bias");
}

// Prints what a token costs to sample; the bound only catches a full sort of the vocabulary.
TEST(Sampler, LargeVocabulariesStayFast) {
  const auto logits = random_logits(248320, 5, 3);
  struct Case {
    const char* name;
    SamplingParams params;
  };
  std::vector<Case> cases(7);
  cases[0] = {"greedy", {}};
  cases[0].params.temperature = 0;
  cases[1] = {"neutral", {}};
  cases[2] = {"top_k 20, top_p 0.8", {}};
  cases[2].params.top_k = 20;
  cases[2].params.top_p = 0.8f;
  cases[3] = {"top_p 0.9", {}};
  cases[3].params.top_p = 0.9f;
  cases[4] = {"min_p 0.05", {}};
  cases[4].params.min_p = 0.05f;
  cases[5] = {"top_p 0.99 at 2", {}};
  cases[5].params.top_p = 0.99f;
  cases[5].params.temperature = 2;
  cases[6] = {"neutral, logprobs", {}};
  cases[6].params.logprobs = true;
  SamplerScratch scratch;
  for (const auto& c : cases) {
    const Sampler sampler(c.params);
    const std::clock_t start = std::clock();
    for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(sampler.sample(logits, i, scratch));
    const double microseconds = 1e6 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / 20;
    std::printf("%-22s %8.0f us\n", c.name, microseconds);
    EXPECT_LT(microseconds, 100000);
  }
}

TEST(Sampler, APartOfTheVocabularyIsSampledLikeOneWithoutTheRest) {
  auto logits = random_logits(400, 5);
  SamplingParams params;
  params.temperature = 0.8f;
  params.logit_bias = {{10, 3.0f}, {399, 50.0f}};
  params.repetition_penalty = 1.3f;
  const std::vector<int32_t> prompt = {3, 250, 398};
  const std::span<const float> part = std::span(logits).first(160);
  std::vector<float> rest_impossible = logits;
  std::fill(rest_impossible.begin() + 160, rest_impossible.end(), -1e30f);
  Sampler sampler(params);
  sampler.extend_prompt(prompt);
  SamplerScratch scratch;
  for (uint64_t position = 0; position < 100; ++position) {
    const auto few = sampler.sample(part, position, scratch);
    ASSERT_TRUE(few);
    EXPECT_LT(few->token, 160);
    EXPECT_EQ(few->token, sampler.sample(rest_impossible, position, scratch)->token);
  }
}

}  // namespace
}  // namespace drafthorse
