#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/engine_bench.h"

namespace drafthorse {
namespace {

using test::Bench;
using test::CollectingSink;
using test::expected;
using test::FakeModel;
using test::FakeOptions;
using test::request_of;
using test::test_options;

TEST(Engine, GreedyTokensAreThoseOfTheModelAlone) {
  Bench bench;
  const auto r = request_of({1, 2, 3}, 100);
  auto sink = bench.submit(r);
  EXPECT_EQ(sink->wait(), expected({}, r, 100));
  EXPECT_EQ(sink->reason(), FinishReason::length);
  EXPECT_EQ(sink->stats().prompt_tokens, 3);
  EXPECT_EQ(sink->stats().completion_tokens, 100);
}

TEST(Engine, DraftsAreAcceptedAndSaveCalls) {
  FakeOptions fake;
  fake.repetitiveness = 1;
  Bench bench(fake);
  const auto r = request_of({1, 2, 3}, 200);
  auto sink = bench.submit(r);
  EXPECT_EQ(sink->wait(), expected(fake, r, 200));
  const auto stats = sink->stats();
  EXPECT_GT(stats.speculation.accepted, 100);
  EXPECT_LT(stats.speculation.steps, 100);
  EXPECT_GE(stats.speculation.proposed, stats.speculation.accepted);
  ASSERT_TRUE(stats.by_drafter.contains("lookup"));
  EXPECT_EQ(stats.by_drafter.at("lookup").accepted, stats.speculation.accepted);
  // Every token comes from a step's own row or an accepted draft.
  EXPECT_EQ(stats.completion_tokens, stats.speculation.steps + stats.speculation.accepted);
}

TEST(Engine, OffMeansNoDrafts) {
  FakeOptions fake;
  fake.repetitiveness = 1;
  for (bool by_server : {false, true}) {
    auto options = test_options();
    if (by_server) options.draft = "off";
    Bench bench(fake, options);
    auto r = request_of({1, 2, 3}, 50);
    if (!by_server) r.draft = "off";
    auto sink = bench.submit(r);
    EXPECT_EQ(sink->wait(), expected(fake, r, 50));
    EXPECT_EQ(sink->stats().speculation.proposed, 0);
    EXPECT_EQ(sink->stats().speculation.steps, 50);
  }
}

TEST(Engine, StopTokenEndsTheAnswerAndIsReported) {
  Bench bench;
  auto r = request_of({5, 6}, 50);
  const auto all = expected({}, r, 50);
  r.stop_tokens = {all[9]};
  const auto first = std::find(all.begin(), all.end(), all[9]) - all.begin();
  auto sink = bench.submit(r);
  EXPECT_EQ(sink->wait(), std::vector<int32_t>(all.begin(), all.begin() + first + 1));
  EXPECT_EQ(sink->reason(), FinishReason::stop);
}

TEST(Engine, FullContextEndsWithLength) {
  FakeOptions fake;
  fake.context = 40;
  Bench bench(fake);
  auto sink = bench.submit(request_of({1, 2, 3}, 0));
  EXPECT_EQ(sink->wait().size(), 37u);
  EXPECT_EQ(sink->reason(), FinishReason::length);
}

TEST(Engine, SubmitNamesWhatIsWrong) {
  FakeOptions fake;
  fake.context = 8;
  Bench bench(fake);
  const auto error_of = [&](EngineRequest r) {
    auto id = bench.engine->submit(std::move(r), std::make_shared<CollectingSink>());
    EXPECT_FALSE(id);
    return id ? Error{} : id.error();
  };
  EXPECT_EQ(error_of(request_of({}, 1)).param, "prompt");
  const auto long_prompt = error_of(request_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, 1));
  EXPECT_EQ(long_prompt.kind, ErrorKind::context_length);
  EXPECT_THAT(long_prompt.message, ::testing::HasSubstr("the prompt has 9 tokens, the context is 8"));
  EXPECT_THAT(error_of(request_of({1, 64}, 1)).message, ::testing::HasSubstr("id 64"));
  EXPECT_EQ(error_of(request_of({-1}, 1)).kind, ErrorKind::invalid_argument);
  auto r = request_of({1}, 1);
  r.sampling.top_p = 2;
  EXPECT_EQ(error_of(r).param, "top_p");
  r = request_of({1}, 1);
  r.draft = "magic";
  EXPECT_EQ(error_of(r).param, "draft");
  r = request_of({1}, 1);
  r.max_draft = 17;
  EXPECT_EQ(error_of(r).param, "max_draft");
  EXPECT_EQ(bench.engine->stats().rejected, 7u);
}

TEST(Engine, CancelInDecodePrefillAndQueue) {
  FakeOptions fake;
  fake.row_time = std::chrono::microseconds(200);
  fake.context = 100000;
  auto options = test_options();
  options.max_running = 1;
  options.prefill_chunk = 50;
  Bench bench(fake, options);
  auto decoding = bench.submit(request_of({1, 2}, 0));
  const auto decoding_id = bench.last;
  auto queued = bench.submit(request_of({3, 4}, 0));
  bench.engine->cancel(bench.last);
  queued->wait();
  EXPECT_EQ(queued->reason(), FinishReason::cancelled);
  EXPECT_FALSE(decoding->finished());
  decoding->wait_for_tokens(5);
  bench.engine->cancel(decoding_id);
  decoding->wait();
  EXPECT_EQ(decoding->reason(), FinishReason::cancelled);

  auto prefilling = bench.submit(request_of(std::vector<int32_t>(90000, 3), 0));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  bench.engine->cancel(bench.last);
  prefilling->wait();
  EXPECT_EQ(prefilling->reason(), FinishReason::cancelled);
  EXPECT_EQ(prefilling->stats().completion_tokens, 0);
  EXPECT_EQ(bench.engine->stats().cancelled, 3u);
  bench.engine->cancel(12345);  // unknown ids are ignored
}

TEST(Engine, BoundedQueueIsBusy) {
  FakeOptions fake;
  fake.run_time = std::chrono::microseconds(1000);
  auto options = test_options();
  options.max_running = 2;
  options.max_queue = 1;
  Bench bench(fake, options);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (int i = 0; i < 3; ++i) sinks.push_back(bench.submit(request_of({1, i}, 30)));
  auto id = bench.engine->submit(request_of({9}, 1), std::make_shared<CollectingSink>());
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().kind, ErrorKind::busy);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(sinks[static_cast<size_t>(i)]->wait(), expected({}, request_of({1, i}, 30), 30));
  bench.submit(request_of({9}, 1))->wait();
}

TEST(Engine, OneRequestFailsAlone) {
  FakeOptions fake;
  fake.vocab = 200;
  fake.nan_token = 150;
  fake.throw_token = 151;
  fake.run_time = std::chrono::microseconds(300);
  Bench bench(fake);
  auto good = request_of({1, 2}, 60);
  good.sampling.logit_bias = {{150, -100}, {151, -100}};
  auto other = request_of({3, 4}, 60, 0.8f);
  other.sampling.logit_bias = good.sampling.logit_bias;
  auto sink = bench.submit(good);
  auto sink2 = bench.submit(other);
  auto nan = bench.submit(request_of({1, 150}, 10));
  auto thrower = bench.submit(request_of({1, 151, 4}, 10));
  auto bad_sink = std::make_shared<CollectingSink>();
  bad_sink->on_each = [](auto) -> bool { throw std::runtime_error("sink broke"); };
  ASSERT_TRUE(bench.engine->submit(request_of({7}, 10), bad_sink));
  nan->wait();
  EXPECT_EQ(nan->reason(), FinishReason::error);
  EXPECT_THAT(nan->error()->message, ::testing::HasSubstr("not finite"));
  thrower->wait();
  EXPECT_EQ(thrower->reason(), FinishReason::error);
  bad_sink->wait();
  EXPECT_EQ(bad_sink->reason(), FinishReason::error);
  EXPECT_THAT(bad_sink->error()->message, ::testing::HasSubstr("sink broke"));
  EXPECT_EQ(sink->wait(), expected(fake, good, 60));
  EXPECT_EQ(sink2->wait(), expected(fake, other, 60));
  EXPECT_EQ(bench.engine->stats().failed, 3u);
}

TEST(Engine, ASinkThatHasEnoughStopsItsRequest) {
  Bench bench;
  auto sink = std::make_shared<CollectingSink>();
  size_t seen = 0;
  sink->on_each = [&](auto events) { return (seen += events.size()) < 10; };
  ASSERT_TRUE(bench.engine->submit(request_of({1, 2, 3}, 0), sink));
  EXPECT_GE(sink->wait().size(), 10u);
  EXPECT_EQ(sink->reason(), FinishReason::stop);
}

TEST(Engine, WaitsForMemoryAndGivesItBack) {
  FakeOptions fake;
  fake.pool = 100;
  Bench bench(fake);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (int i = 0; i < 5; ++i) sinks.push_back(bench.submit(request_of({1, i}, 60)));  // one at a time fits
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(sinks[static_cast<size_t>(i)]->wait(), expected(fake, request_of({1, i}, 60), 60));
}

TEST(Engine, TheNewestWaitsWhenThePoolIsExhaustedAndSaysTheSame) {
  FakeOptions fake;
  fake.pool = 900;
  fake.context = 600;
  Bench bench(fake);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (int i = 0; i < 3; ++i) sinks.push_back(bench.submit(request_of({1, i}, 0)));  // grow to 600 each
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sinks[static_cast<size_t>(i)]->wait(), expected(fake, request_of({1, i}, 0), 598));
    EXPECT_EQ(sinks[static_cast<size_t>(i)]->reason(), FinishReason::length);
  }
}

TEST(Engine, ASequenceThatOutgrowsThePoolAloneEndsWithOutOfMemory) {
  FakeOptions fake;
  fake.pool = 50;
  Bench bench(fake);
  auto grows = bench.submit(request_of({1, 2}, 0));
  EXPECT_GE(grows->wait().size(), 40u);
  EXPECT_EQ(grows->reason(), FinishReason::error);
  EXPECT_EQ(grows->error()->kind, ErrorKind::out_of_memory);
  auto too_long = bench.submit(request_of(std::vector<int32_t>(60, 1), 1));
  too_long->wait();
  EXPECT_EQ(too_long->error()->kind, ErrorKind::out_of_memory);
  EXPECT_EQ(bench.submit(request_of({1, 2}, 10))->wait(), expected(fake, request_of({1, 2}, 10), 10));
}

TEST(Engine, APromptThatExtendsAFinishedSequenceReusesItsState) {
  Bench bench;
  std::vector<int32_t> prompt;
  for (int i = 0; i < 40; ++i) prompt.push_back(i);
  auto first = bench.submit(request_of(prompt, 20));
  auto answer = first->wait();
  EXPECT_EQ(first->stats().cached_tokens, 0);
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  prompt.insert(prompt.end(), {1, 2, 3});
  auto second = bench.submit(request_of(prompt, 20));
  EXPECT_EQ(second->wait(), expected({}, request_of(prompt, 20), 20));
  EXPECT_EQ(second->stats().cached_tokens, 59);  // the last token of the answer was never run
}

TEST(Engine, DestructionCancelsEverything) {
  FakeOptions fake;
  fake.run_time = std::chrono::microseconds(500);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  {
    auto options = test_options();
    options.max_running = 2;
    Bench bench(fake, options);
    for (int i = 0; i < 6; ++i) sinks.push_back(bench.submit(request_of({1, i}, 0)));
    sinks[0]->wait_for_tokens(3);
  }
  for (auto& sink : sinks) {
    EXPECT_EQ(sink->finishes(), 1);
    EXPECT_EQ(sink->reason(), FinishReason::cancelled);
  }
}

TEST(Engine, ManyClientsAtOnce) {
  FakeOptions fake;
  fake.pool = 2000;
  Bench bench(fake);
  std::vector<std::thread> clients;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 10; ++i) {
        auto r = request_of({c, i, 3}, 40, i % 2 ? 0.9f : 0.0f);
        auto sink = std::make_shared<CollectingSink>();
        auto id = bench.engine->submit(r, sink);
        if (!id) {
          ++wrong;
          continue;
        }
        if (i % 5 == 4) {
          bench.engine->cancel(*id);
          sink->wait();
        } else if (sink->wait() != expected(fake, r, 40)) {
          ++wrong;
        }
      }
    });
  }
  for (auto& c : clients) c.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace drafthorse
