#include "backend/bench_model.h"

#include <gtest/gtest.h>

#include "backend/support/random_network.h"
#include "backend/support/run_model.h"

namespace drafthorse {
namespace {

using namespace drafthorse::test;  // NOLINT: the tests' own helpers

TEST(BenchModel, FiguresFitTogetherAndTheModelIsLeftAsItWas) {
  const RandomNetwork random(RandomNetworkOptions{});
  BackendOptions options = cpu();
  options.context = 256;
  const std::unique_ptr<Model> model = load(random.network, options);
  ModelBenchOptions bench{.tokens = 4, .depth = 100, .prefill_rows = 64, .repeats = 1};
  const Result<ModelBench> result = bench_model(random.network, *model, 1, bench);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(result->decode_tokens_per_second, 0);
  EXPECT_GT(result->prefill_tokens_per_second, 0);
  EXPECT_GT(result->bandwidth, 1e8);
  // f32 matrices as packed, and 1024 bytes of keys and values for each of 102 positions.
  EXPECT_EQ(result->bytes_per_token, model->memory()[0].bytes + 102 * 1024);
  EXPECT_NEAR(result->bandwidth_share * result->bandwidth, result->bytes_per_token * result->decode_tokens_per_second,
              1);
  const std::unique_ptr<State> state = model->new_state();
  EXPECT_TRUE(model->reserve(*state, 256).ok());  // the bench has given its positions back

  bench.depth = 1000;
  EXPECT_EQ(bench_model(random.network, *model, 1, bench).error().kind, ErrorKind::context_length);
}

}  // namespace
}  // namespace drafthorse
