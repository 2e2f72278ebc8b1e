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

TEST(BenchModel, OfAHybridCountsItsStateAndTheExpertsOfOneToken) {
  const RandomNetwork random(hybrid_moe_options());
  BackendOptions options = cpu();
  options.context = 256;
  const std::unique_ptr<Model> model = load(random.network, options);
  const ModelBenchOptions bench{.tokens = 4, .depth = 100, .prefill_rows = 64, .repeats = 2};
  const Result<ModelBench> result = bench_model(random.network, *model, 1, bench);
  ASSERT_TRUE(result.ok()) << result.error().message;
  // Two delta nets of 4 heads of 32 x 32 with 3 rows of 256 channels, read and written, and in two attention blocks 512
  // bytes for each of 102 positions.
  const uint64_t states = 2 * 2 * (4 * 32 * 32 + 3 * 256) * 4;
  EXPECT_EQ(result->bytes_per_token, bytes_per_token(random.network) + states + 102 * 2 * 512);
  EXPECT_LT(result->bytes_per_token, model->memory()[0].bytes);
  double parts = 0;
  for (const TimePart& part : result->decode_parts) {
    EXPECT_EQ(part.seconds > 0, part.name != "feed-forward") << part.name;
    parts += part.seconds;
  }
  EXPECT_LT(parts * result->decode_tokens_per_second, 1.0);
  const std::unique_ptr<State> state = model->new_state();
  EXPECT_TRUE(model->reserve(*state, 256).ok());
}

}  // namespace
}  // namespace drafthorse
