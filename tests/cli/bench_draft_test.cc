#include "cli/bench_draft.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "draft/mtp.h"
#include "support/fake_head.h"
#include "support/fake_model.h"

namespace drafthorse {
namespace {

using namespace drafthorse::test;  // NOLINT: the tests' own helpers
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kSlope = 0.05, kHeadCost = 0.1;

std::vector<double> sloped() {
  std::vector<double> cost(17);
  for (int n = 1; n <= 16; ++n) cost[static_cast<size_t>(n)] = 1 + kSlope * (n - 1);
  return cost;
}

// A fake model whose steps take the time that the costs say.
struct DraftBenchFixture {
  explicit DraftBenchFixture(double head_accuracy = -1, std::chrono::microseconds row_time = {}) {
    FakeOptions fake;
    fake.context = 2048;
    fake.row_time = row_time;
    fake.run_time = row_time * 19;  // a row more costs a twentieth of a step
    auto model = std::make_unique<FakeModel>(fake);
    EngineOptions engine_options;
    engine_options.row_cost = sloped();
    engine_options.head_cost = kHeadCost;
    if (head_accuracy >= 0) engine_options.head = head = std::make_shared<FakeHead>(*model, head_accuracy);
    engine = std::make_unique<Engine>(std::move(model), with_replay(std::move(engine_options), replay));
    options.prompt = {3, 1, 4, 1, 5};
    options.tokens = 400;
    options.repeats = 1;
  }
  Result<DraftBench> run(std::vector<ReplayKind> kinds) {
    options.kinds = std::move(kinds);
    return bench_draft(*engine, *replay, options);
  }

  std::shared_ptr<Replay> replay = std::make_shared<Replay>();
  std::shared_ptr<FakeHead> head;
  DraftBenchOptions options;
  std::unique_ptr<Engine> engine;
};

// Tokens that a step brings when each of `depth` drafts is right with probability a, given those before it.
double expected_tokens(double a, int depth) {
  double tokens = 1, reach = 1;
  for (int i = 0; i < depth; ++i) tokens += reach *= a;
  return tokens;
}

TEST(Replay, ErrsAtTheRateAndNeverByChance) {
  Replay replay;
  std::vector<int32_t> text(1000);
  for (int i = 0; i < 1000; ++i) text[static_cast<size_t>(i)] = i % 7;
  replay.record(text, 7);
  replay.start(0.7, 5);
  int right = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int32_t token = *replay.propose(i);
    EXPECT_TRUE(token >= 0 && token < 7);
    right += token == text[i];
  }
  EXPECT_NEAR(right, 700, 60);
  EXPECT_FALSE(replay.propose(1000).has_value());
  for (const double acceptance : {0.0, 1.0}) {
    replay.start(acceptance, 5);
    for (size_t i = 0; i < text.size(); ++i) EXPECT_EQ(*replay.propose(i) == text[i], acceptance == 1);
  }
}

TEST(BenchDraft, StepsBringWhatTheAcceptanceSays) {
  DraftBenchFixture fixture;
  const auto bench = fixture.run({{0.5, false}, {0.9, false}});
  ASSERT_TRUE(bench) << bench.error().message;
  ASSERT_EQ(bench->rows.size(), 2u);
  for (const DraftBenchRow& row : bench->rows) {
    std::vector<int> depths;
    for (const DraftBenchCell& cell : row.cells) {
      depths.push_back(cell.depth);
      if (cell.depth == 0) continue;
      const double tokens = expected_tokens(row.kind.acceptance, cell.depth);
      EXPECT_NEAR(cell.tokens_per_step, tokens, 0.2 * tokens) << name_of(row.kind) << ", depth " << cell.depth;
      EXPECT_NEAR(cell.predicted, tokens / (1 + kSlope * cell.depth), 1e-9);
      EXPECT_NEAR(cell.proposed_per_step, cell.depth, 0.2 * cell.depth);
    }
    EXPECT_THAT(depths, ElementsAre(1, 2, 4, 8, 16, 0));
  }
}

TEST(BenchDraft, CertainDraftsAreAllAcceptedAndHopelessOnesNever) {
  DraftBenchFixture fixture;
  fixture.options.depths = {4};
  const auto bench = fixture.run({{1, false}, {0, false}});
  ASSERT_TRUE(bench) << bench.error().message;
  EXPECT_NEAR(bench->rows[0].cells[0].tokens_per_step, 5, 0.1);
  EXPECT_EQ(bench->rows[1].cells[0].tokens_per_step, 1);
  EXPECT_NEAR(bench->rows[1].cells[1].predicted, 1, 1e-9);  // the policy would draft nothing
}

TEST(BenchDraft, TheHeadIsRunAndItsTokensAreReplaced) {
  DraftBenchFixture fixture(/*head_accuracy=*/0);
  fixture.options.depths = {1, 4, 16};
  const auto bench = fixture.run({{0.9, true}});
  ASSERT_TRUE(bench) << bench.error().message;
  EXPECT_EQ(bench->head_cost, kHeadCost);
  ASSERT_EQ(bench->rows[0].cells.size(), 3u);  // 16 is deeper than a head is chained
  const DraftBenchCell& four = bench->rows[0].cells[1];
  EXPECT_NEAR(four.tokens_per_step, expected_tokens(0.9, 4), 0.8);  // the head by itself would hit hardly ever
  EXPECT_NEAR(four.predicted, expected_tokens(0.9, 4) / (1 + 4 * (kSlope + kHeadCost)), 1e-9);
  // About 100 steps of 4 runs, and 210 of 1.
  EXPECT_GT(fixture.head->runs, 500);
}

TEST(BenchDraft, TheMeasuredRatioIsThePredictedOne) {
  DraftBenchFixture fixture(-1, std::chrono::microseconds(40));
  fixture.options.tokens = 200;
  fixture.options.depths = {4};
  fixture.options.repeats = 3;
  const auto bench = fixture.run({{0.9, false}});
  ASSERT_TRUE(bench) << bench.error().message;
  const DraftBenchCell& cell = bench->rows[0].cells[0];
  EXPECT_NEAR(cell.ratio, cell.predicted, 0.3 * cell.predicted);
  EXPECT_GT(bench->tokens_per_second, 0);
}

TEST(BenchDraft, AHeadThatIsNotThereIsSaid) {
  DraftBenchFixture fixture;
  EXPECT_EQ(fixture.run({{0.9, true}}).error().kind, ErrorKind::invalid_argument);
}

TEST(BenchDraft, KindsAreReadFromWords) {
  const std::vector<std::string> texts = {"replay:0.5", "0.75", "replay+mtp:1", "0"};
  const auto kinds = parse_replays(texts);
  ASSERT_TRUE(kinds) << kinds.error().message;
  std::vector<std::string> names;
  for (const ReplayKind& kind : *kinds) names.push_back(name_of(kind));
  EXPECT_THAT(names, ElementsAre("replay:0.5", "replay:0.75", "replay+mtp:1", "replay+mtp:0"));
  for (const std::string wrong :
       {"0.5", "replay", "replay:", "replay:1.5", "replay:x", "replay:-1", "replay:nan", "mtp"}) {
    const auto result = parse_replays({&wrong, 1});
    ASSERT_FALSE(result) << wrong;
    EXPECT_THAT(result.error().message, HasSubstr("replay:0.7"));
  }
}

}  // namespace
}  // namespace drafthorse
