#include "engine/row_costs.h"

#include <fstream>

#include <gtest/gtest.h>

#include "core/topology.h"
#include "draft/policy.h"
#include "engine/engine.h"
#include "engine/live_costs.h"
#include "support/fake_model.h"
#include "support/temp_folder.h"

namespace drafthorse {
namespace {

using test::FakeModel;
using test::FakeOptions;
using test::TempFolder;

std::vector<double> sloped(double slope) {
  std::vector<double> cost(17, 0);
  for (int n = 1; n <= 16; ++n) cost[static_cast<size_t>(n)] = 1 + slope * (n - 1);
  return cost;
}

RowCosts costs_of(double slope, double one = 0.01) { return {one, sloped(slope)}; }

TEST(RowCosts, MeasuresWhatRowsCost) {
  FakeOptions fake;
  fake.run_time = std::chrono::milliseconds(4);
  fake.row_time = std::chrono::milliseconds(1);
  FakeModel model(fake);
  const RowCosts costs = measure_row_costs(model);
  const auto& cost = costs.cost;
  EXPECT_GE(costs.one, 0.005);
  ASSERT_EQ(cost.size(), 17u);
  EXPECT_EQ(cost[1], 1);
  for (size_t n = 2; n <= 16; ++n) EXPECT_GE(cost[n], cost[n - 1]);
  EXPECT_NEAR(cost[16], 20.0 / 5, 1);  // (4 + 16) / (4 + 1)
  EXPECT_EQ(model.live_states, 0);
}

TEST(RowCosts, AModelWithRecurrentPartsIsMeasuredToo) {
  FakeOptions fake;
  fake.recurrent = true;
  FakeModel model(fake);
  EXPECT_EQ(measure_row_costs(model).cost.size(), 17u);
}

TEST(RowCosts, WithoutRoomDraftingNeverPays) {
  FakeOptions fake;
  fake.pool = 4;
  FakeModel model(fake);
  EXPECT_EQ(measure_row_costs(model).cost[16], 16);
  fake.pool = 1000;
  fake.context = 9;
  FakeModel narrow(fake);
  EXPECT_EQ(measure_row_costs(narrow).cost[16], 16);
}

TEST(RowCosts, TheFileKeepsThemByKey) {
  const TempFolder folder;
  const std::string file = folder / "a/costs";
  EXPECT_FALSE(read_row_costs(file, "m"));
  EXPECT_TRUE(write_row_costs(file, "m\n1", costs_of(0.1)));
  EXPECT_TRUE(write_row_costs(file, "n", costs_of(0.2)));
  EXPECT_TRUE(write_row_costs(file, "m\n1", costs_of(0.3)));
  EXPECT_NEAR(read_row_costs(file, "m\n1").cost[2], 1.3, 1e-3);
  EXPECT_NEAR(read_row_costs(file, "n").cost[2], 1.2, 1e-3);
  EXPECT_FALSE(read_row_costs(file, "other"));
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(write_row_costs(file, std::to_string(i), costs_of(0.1)));
  EXPECT_FALSE(read_row_costs(file, "5"));  // the file stays small
  EXPECT_TRUE(read_row_costs(file, "199"));
}

TEST(RowCosts, ADamagedFileIsMeasuredAnew) {
  const TempFolder folder;
  for (const char* text :
       {"m\t1 2", "m\t1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 nan", "\x01\x02", "m\t0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"}) {
    std::ofstream(folder / "costs") << text << '\n';
    EXPECT_FALSE(read_row_costs(folder / "costs", "m"));
  }
  EXPECT_FALSE(write_row_costs("/proc/nowhere/costs", "m", costs_of(0.1)));
}

TEST(RowCosts, TheFileHoldsSecondsAndNeverFalls) {
  const TempFolder folder;
  const std::string file = folder / "costs";
  EXPECT_TRUE(write_row_costs(file, "m", costs_of(0.1, 0.0123)));
  EXPECT_NEAR(read_row_costs(file, "m").one, 0.0123, 1e-6);
  RowCosts falling = costs_of(0.1);
  falling.cost[5] = 1;
  EXPECT_TRUE(write_row_costs(file, "m", falling));
  EXPECT_FALSE(read_row_costs(file, "m"));
}

TEST(RowCosts, KeptOnesAreHeldAgainstAProbe) {
  const RowCosts kept = costs_of(0.1, 0.01);  // 8 rows: 1.7
  EXPECT_EQ(judge_kept_costs(kept, {0.010, 1.1, 1.7}), KeptCosts::use);
  EXPECT_EQ(judge_kept_costs(kept, {0.050, 1.1, 2.0}), KeptCosts::use);
  EXPECT_EQ(judge_kept_costs(kept, {0.010, 1.1, 3.0}), KeptCosts::measure_and_replace);  // they were wrong
  EXPECT_EQ(judge_kept_costs(kept, {0.010, 1.6, 1.7}), KeptCosts::measure_and_replace);  // at one size
  EXPECT_EQ(judge_kept_costs(kept, {0.005, 1.1, 1.2}), KeptCosts::measure_and_replace);  // measured on a busy machine
  EXPECT_EQ(judge_kept_costs(kept, {0.004, 1.1, 1.7}),
            KeptCosts::measure_and_replace);                                 // agrees at this size by chance
  EXPECT_EQ(judge_kept_costs(kept, {0.020, 1.1, 3.0}), KeptCosts::measure);  // it is busy now
  EXPECT_EQ(judge_kept_costs(kept, {}), KeptCosts::use);                     // nothing to hold them against
  EXPECT_EQ(judge_kept_costs({}, {}), KeptCosts::measure_and_replace);
}

TEST(RowCosts, TheEngineUsesWhatItKeptUnlessItIsWrong) {
  const TempFolder folder;
  FakeOptions fake;
  fake.run_time = std::chrono::milliseconds(4);
  fake.row_time = std::chrono::milliseconds(1);  // 8 rows: 12 / 5 = 2.4
  EngineOptions options;
  options.policy_cache = folder / "costs";
  options.policy_key = "weights";
  const auto start = [&] { return Engine(std::make_unique<FakeModel>(fake), options).row_cost(); };
  EXPECT_NEAR(start()[8], 2.4, 0.4);
  const std::string key = "weights | fake | " + cpu_name();
  ASSERT_TRUE(read_row_costs(options.policy_cache, key));
  write_row_costs(options.policy_cache, key, costs_of(1.41 / 7, 0.005));
  EXPECT_NEAR(start()[8], 2.41, 1e-3);  // close enough: kept
  write_row_costs(options.policy_cache, key, costs_of(1, 0.005));
  EXPECT_NEAR(start()[8], 2.4, 0.4);  // 8 was far off
  EXPECT_NEAR(read_row_costs(options.policy_cache, key).cost[8], 2.4, 0.4);
  write_row_costs(options.policy_cache, key, costs_of(1, 0.0001));
  EXPECT_NEAR(start()[8], 2.4, 0.4);  // far off and slower than then: measured, but the file is left alone
  EXPECT_NEAR(read_row_costs(options.policy_cache, key).cost[8], 8, 1e-3);
}

TEST(LiveCosts, FollowWhatStepsTake) {
  LiveCosts costs(sloped(0.1));
  for (int i = 0; i < 100; ++i) {
    costs.observe(1, 0.010);
    costs.observe(6, 0.010 * (1 + 0.3 * 5));  // a row costs three times what was measured
  }
  EXPECT_NEAR(costs.scale(), 3, 0.5);
  EXPECT_NEAR(costs.cost()[11], 4, 0.5);
  for (int i = 0; i < 500; ++i) costs.observe(1, 0.010);
  EXPECT_NEAR(costs.scale(), 1, 0.05);  // parked steps forget
}

TEST(LiveCosts, ASizeThatDiffersFromTheTableIsLearntByItself) {
  LiveCosts costs(sloped(0.2), 0.010);
  for (int i = 0; i < 30; ++i) {
    costs.observe(2, 0.012);  // as measured
    costs.observe(3, 0.022);  // 2.2 in place of 1.4
  }
  EXPECT_NEAR(costs.cost()[2], 1.2, 0.15);
  EXPECT_NEAR(costs.cost()[3], 2.2, 0.2);
  EXPECT_GE(costs.cost()[4], costs.cost()[3]);  // never falling
  for (int i = 0; i < 500; ++i) costs.observe(1, 0.010);
  EXPECT_NEAR(costs.cost()[3], 1.4, 0.05);  // it is tried again some time
}

TEST(LiveCosts, RowsThatWereFreeWhenMeasuredCanTurnOutDear) {
  LiveCosts costs(sloped(0), 0.010);  // as beside the rows of other texts, in a mixture
  for (int i = 0; i < 60; ++i) {
    costs.observe(4, 0.010 * (1 + 0.5 * 3));
    costs.observe(11, 0.010 * (1 + 0.5 * 10));
  }
  EXPECT_NEAR(costs.cost()[4], 2.5, 0.2);
  EXPECT_NEAR(costs.cost()[8], 4.5, 0.6);
  EXPECT_NEAR(step_cost(costs.cost(), 20), 10.5, 1.5);
}

TEST(LiveCosts, TheHeadsFollowsWhatItsDraftsTake) {
  LiveHeadCost cost(0.1);
  cost.observe(2, 0.4, 0);  // what a step takes is not known yet
  EXPECT_DOUBLE_EQ(cost.cost(), 0.1);
  for (int i = 0; i < 100; ++i) cost.observe(2, 0.006, 0.01);
  EXPECT_NEAR(cost.cost(), 0.3, 0.01);
  cost.observe(1, 10, 0.01);  // something else ran
  EXPECT_LT(cost.cost(), 0.4);
  for (int i = 0; i < 100; ++i) cost.observe(1, 0.0005, 0.01);
  EXPECT_NEAR(cost.cost(), 0.05, 0.01);
}

TEST(LiveCosts, RowsThatTheHeadEntersAreLearntApart) {
  LiveHeadCost cost(0.1);
  EXPECT_NEAR(cost.row(), 0.02, 1e-9);
  for (int i = 0; i < 20; ++i) cost.observe_rows(500, 1, 0.011, 0.01);  // 1.1 steps, 0.1 of them for the draft
  EXPECT_NEAR(cost.row(), 0.002, 1e-4);
  EXPECT_DOUBLE_EQ(cost.cost(), 0.1);
  cost.observe_rows(100, 0, 0.01, 0);  // what a step takes is not known
  EXPECT_NEAR(cost.row(), 0.002, 1e-4);
}

TEST(LiveCosts, OneInterruptionChangesLittle) {
  LiveCosts costs(sloped(0.1));
  for (int i = 0; i < 20; ++i) costs.observe(1, 0.010);
  costs.observe(4, 5.0);
  EXPECT_LT(costs.scale(), 1.9);
  costs.observe(1, 5.0);
  costs.observe(2, 0.011);
  EXPECT_LT(costs.scale(), 1.9);
}

}  // namespace
}  // namespace drafthorse
