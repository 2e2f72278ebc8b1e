#include "engine/row_costs.h"

#include <fstream>

#include <gtest/gtest.h>

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

TEST(RowCosts, MeasuresWhatRowsCost) {
  FakeOptions fake;
  fake.run_time = std::chrono::milliseconds(4);
  fake.row_time = std::chrono::milliseconds(1);
  FakeModel model(fake);
  const auto cost = measure_row_costs(model);
  ASSERT_EQ(cost.size(), 17u);
  EXPECT_EQ(cost[1], 1);
  for (size_t n = 2; n <= 16; ++n) EXPECT_GE(cost[n], cost[n - 1]);
  EXPECT_NEAR(cost[16], 20.0 / 5, 1);  // (4 + 16) / (4 + 1)
  EXPECT_EQ(model.live_states, 0);
}

TEST(RowCosts, WithoutRoomDraftingNeverPays) {
  FakeOptions fake;
  fake.pool = 4;
  FakeModel model(fake);
  EXPECT_EQ(measure_row_costs(model)[16], 16);
  fake.pool = 1000;
  fake.context = 9;
  FakeModel narrow(fake);
  EXPECT_EQ(measure_row_costs(narrow)[16], 16);
}

TEST(RowCosts, TheFileKeepsThemByKey) {
  const TempFolder folder;
  const std::string file = folder / "a/costs";
  EXPECT_TRUE(read_row_costs(file, "m").empty());
  EXPECT_TRUE(write_row_costs(file, "m\n1", sloped(0.1)));
  EXPECT_TRUE(write_row_costs(file, "n", sloped(0.2)));
  EXPECT_TRUE(write_row_costs(file, "m\n1", sloped(0.3)));
  EXPECT_NEAR(read_row_costs(file, "m\n1")[2], 1.3, 1e-3);
  EXPECT_NEAR(read_row_costs(file, "n")[2], 1.2, 1e-3);
  EXPECT_TRUE(read_row_costs(file, "other").empty());
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(write_row_costs(file, std::to_string(i), sloped(0.1)));
  EXPECT_TRUE(read_row_costs(file, "5").empty());  // the file stays small
  EXPECT_FALSE(read_row_costs(file, "199").empty());
}

TEST(RowCosts, ADamagedFileIsMeasuredAnew) {
  const TempFolder folder;
  for (const char* text :
       {"m\t1 2", "m\t1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 nan", "\x01\x02", "m\t0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"}) {
    std::ofstream(folder / "costs") << text << '\n';
    EXPECT_TRUE(read_row_costs(folder / "costs", "m").empty());
  }
  EXPECT_FALSE(write_row_costs("/proc/nowhere/costs", "m", sloped(0.1)));
}

TEST(RowCosts, TheEngineMeasuresOnceAndReadsLater) {
  const TempFolder folder;
  EngineOptions options;
  options.policy_cache = folder / "costs";
  options.policy_key = "weights";
  {
    Engine engine(std::make_unique<FakeModel>(), options);
    EXPECT_EQ(engine.row_cost().size(), 17u);
  }
  write_row_costs(options.policy_cache, "weights | fake", sloped(0.37));
  Engine engine(std::make_unique<FakeModel>(), options);
  EXPECT_NEAR(engine.row_cost()[2], 1.37, 1e-3);
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
