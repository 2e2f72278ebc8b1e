// The engine with a multi-token prediction head: what it drafts is verified, pays, and never changes the text.

#include <gtest/gtest.h>

#include "support/engine_bench.h"

namespace drafthorse {
namespace {

using test::Bench;
using test::expected;
using test::FakeOptions;
using test::request_of;
using test::test_options;

std::vector<int32_t> counting(int n) {
  std::vector<int32_t> prompt;
  for (int i = 0; i < n; ++i) prompt.push_back(i % 60);
  return prompt;
}

TEST(Head, ItsDraftsAreAcceptedAsOftenAsItIsRight) {
  for (float temperature : {0.0f, 0.8f}) {
    const FakeOptions fake{.repetitiveness = 0, .recurrent = true};
    Bench bench(fake, test_options(), 0.8);
    auto r = request_of(counting(70), 300, temperature);
    r.draft = "mtp";
    r.max_draft = 1;
    auto sink = bench.submit(r);
    EXPECT_EQ(sink->wait(), expected(fake, r, 300));
    const auto head = sink->stats().by_drafter.at("mtp");
    EXPECT_GT(head.proposed, 100);
    EXPECT_NEAR(static_cast<double>(head.accepted) / static_cast<double>(head.proposed), 0.8, 0.1);
  }
}

TEST(Head, ChainsAndSavesSteps) {
  const FakeOptions fake{.repetitiveness = 0};
  Bench bench(fake, test_options(), 0.95);
  const auto r = request_of(counting(5), 300);
  auto sink = bench.submit(r);
  EXPECT_EQ(sink->wait(), expected(fake, r, 300));
  const auto stats = sink->stats();
  EXPECT_LT(stats.speculation.steps, 120);
  EXPECT_EQ(stats.completion_tokens, stats.speculation.steps + stats.speculation.accepted);
}

TEST(Head, HistoryOfLongPromptsIsEnteredInChunks) {
  auto options = test_options();
  options.prefill_chunk = 48;
  const FakeOptions fake{.context = 2048, .repetitiveness = 0, .recurrent = true};
  Bench bench(fake, options, 1.0);
  auto r = request_of(counting(1000), 60);
  r.draft = "mtp";
  auto sink = bench.submit(r);
  EXPECT_EQ(sink->wait(), expected(fake, r, 60));
  const auto head = sink->stats().by_drafter.at("mtp");
  EXPECT_EQ(head.accepted, head.proposed);  // a right head whose pairs are right is never refused
}

TEST(Head, ManySequencesShareItsCalls) {
  const FakeOptions fake{.repetitiveness = 0.3, .recurrent = true};
  Bench bench(fake, test_options(), 0.8);
  std::vector<EngineRequest> requests;
  std::vector<std::shared_ptr<test::CollectingSink>> sinks;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(request_of(counting(3 + 20 * i), 60 + i, i % 2 == 0 ? 0.0f : 0.9f));
    sinks.push_back(bench.submit(requests.back()));
  }
  for (size_t i = 0; i < sinks.size(); ++i)
    EXPECT_EQ(sinks[i]->wait(), expected(fake, requests[i], 60 + static_cast<int>(i)));
}

TEST(Head, ParksWhereItDoesNotPayAndTriesAgainRarely) {
  auto options = test_options();
  for (int n = 1; n <= 16; ++n) options.row_cost[static_cast<size_t>(n)] = n;  // a row more never pays
  const FakeOptions fake{.repetitiveness = 0};
  Bench bench(fake, options, 0.9);
  const auto r = request_of(counting(5), 400);
  auto sink = bench.submit(r);
  EXPECT_EQ(sink->wait(), expected(fake, r, 400));
  const auto head = sink->stats().by_drafter.at("mtp");
  EXPECT_GT(head.parked, 300);
  EXPECT_LE(head.proposed, 5);
  EXPECT_GT(bench.head->runs, 2);   // it is tried, ever more rarely,
  EXPECT_LE(bench.head->runs, 10);  // and takes in what has piled up
}

TEST(Head, AStartThatAShortAnswerDoesNotPayBackIsLeftOut) {
  auto options = test_options();
  options.head_cost = 0.2;  // a row of the prompt is then taken to cost 0.04
  options.prefill_chunk = 1000;
  const FakeOptions fake{.context = 2048, .repetitiveness = 0};
  for (const int tokens : {20, 400}) {
    Bench bench(fake, options, 1.0);
    const auto r = request_of(counting(1000), tokens);  // 40 steps to enter
    auto sink = bench.submit(r);
    EXPECT_EQ(sink->wait(), expected(fake, r, tokens));
    EXPECT_EQ(sink->stats().by_drafter["mtp"].proposed > 0, tokens == 400);
    EXPECT_EQ(bench.head->runs > 0, tokens == 400);
  }
}

TEST(Head, WhatItIsUnsureOfIsNotVerified) {
  auto options = test_options();
  for (int n = 1; n <= 16; ++n) options.row_cost[static_cast<size_t>(n)] = 1 + 0.3 * (n - 1);
  const FakeOptions fake{.repetitiveness = 0};
  Bench bench(fake, options, 0.7);
  bench.head->unsure_when_wrong = true;
  const auto r = request_of(counting(5), 400);
  auto sink = bench.submit(r);
  EXPECT_EQ(sink->wait(), expected(fake, r, 400));
  const auto head = sink->stats().by_drafter.at("mtp");
  EXPECT_GT(head.accepted, 130);
  EXPECT_GT(head.accepted, 0.85 * static_cast<double>(head.proposed));  // though it is right 7 times in 10
}

TEST(Head, ARequestStartsFromWhatTheLastOneSaw) {
  auto options = test_options();
  for (int n = 1; n <= 16; ++n) options.row_cost[static_cast<size_t>(n)] = 1 + 0.55 * (n - 1);
  const FakeOptions fake{.repetitiveness = 0};
  Bench bench(fake, options, 0.02);
  auto first = bench.submit(request_of(counting(5), 200)), second = first;
  first->wait();
  second = bench.submit(request_of(counting(7), 200));
  second->wait();
  EXPECT_GT(first->stats().by_drafter.at("mtp").proposed, 0);
  EXPECT_LT(second->stats().by_drafter.at("mtp").proposed, first->stats().by_drafter.at("mtp").proposed);
}

TEST(Head, WithoutMemoryForItTheAnswerIsTheSame) {
  const FakeOptions fake{.repetitiveness = 0};
  Bench bench(fake, test_options(), 0.9, 40);  // room for the cost's measuring, not for the sequence
  const auto r = request_of(counting(50), 100);
  auto sink = bench.submit(r);
  EXPECT_EQ(sink->wait(), expected(fake, r, 100));
  EXPECT_FALSE(sink->stats().by_drafter.contains("mtp") && sink->stats().by_drafter.at("mtp").proposed > 0);
}

TEST(Head, AKeptStateKeepsItsHistory) {
  const FakeOptions fake{.repetitiveness = 0, .recurrent = true};
  Bench bench(fake, test_options(), 1.0);
  auto prompt = counting(40);
  auto r = request_of(prompt, 20);
  r.draft = "mtp";
  const auto answer = bench.submit(r)->wait();
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  prompt.insert(prompt.end(), {1, 2, 3});
  r.prompt = prompt;
  r.max_tokens = 60;
  auto second = bench.submit(r);
  EXPECT_EQ(second->wait(), expected(fake, r, 60));
  EXPECT_EQ(second->stats().cached_tokens, 59);
  const auto head = second->stats().by_drafter.at("mtp");
  EXPECT_GT(head.proposed, 20);
  EXPECT_EQ(head.accepted, head.proposed);
}

TEST(Head, ARecurrentStateThatCannotGoBackIsNotReused) {
  const FakeOptions fake{.repetitiveness = 0, .recurrent = true};
  Bench bench(fake);
  auto prompt = counting(40);
  bench.submit(request_of(prompt, 20))->wait();
  prompt.resize(36);  // shares 36 of what the kept state holds
  prompt.push_back(63);
  auto sink = bench.submit(request_of(prompt, 20));
  EXPECT_EQ(sink->wait(), expected(fake, request_of(prompt, 20), 20));
  EXPECT_EQ(sink->stats().cached_tokens, 0);
}

TEST(Head, AFailedRunThatEmptiesStatesCostsTheOthersNothingButTime) {
  FakeOptions fake{.vocab = 200, .repetitiveness = 0.5, .recurrent = true};
  fake.throw_token = 151;
  fake.run_time = std::chrono::microseconds(300);
  Bench bench(fake, test_options(), 0.9);
  auto good = request_of({1, 2}, 80), other = request_of({3, 4}, 80, 0.8f);
  good.sampling.logit_bias = other.sampling.logit_bias = {{151, -100}};
  auto sink = bench.submit(good), sink2 = bench.submit(other);
  auto thrower = bench.submit(request_of({1, 151, 4}, 10));
  thrower->wait();
  EXPECT_EQ(thrower->reason(), FinishReason::error);
  EXPECT_EQ(sink->wait(), expected(fake, good, 80));
  EXPECT_EQ(sink2->wait(), expected(fake, other, 80));
}

TEST(Head, AskingForOneThatIsNotThereIsAnError) {
  Bench bench;
  auto r = request_of({1, 2}, 5);
  r.draft = "mtp";
  const auto id = bench.engine->submit(r, std::make_shared<test::CollectingSink>());
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().param, "draft");
}

}  // namespace
}  // namespace drafthorse
