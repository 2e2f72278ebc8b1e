#pragma once
// An engine over the fake model, and what its answers must be.

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/sampler.h"
#include "support/collecting_sink.h"
#include "support/fake_head.h"
#include "support/fake_model.h"

namespace drafthorse::test {

// Drafts of up to 16 rows pay: the cost rises by a twentieth a row.
inline std::vector<double> cheap_rows() {
  std::vector<double> cost(17);
  for (int n = 1; n <= 16; ++n) cost[static_cast<size_t>(n)] = 1 + 0.05 * (n - 1);
  return cost;
}

inline EngineOptions test_options() {
  EngineOptions options;
  options.row_cost = cheap_rows();
  options.head_cost = 0.05;
  return options;
}

struct Bench {
  // head_accuracy < 0: no drafting head.
  explicit Bench(FakeOptions fake = {}, EngineOptions options = test_options(), double head_accuracy = -1,
                 int head_pool = 1 << 30) {
    auto owned = std::make_unique<FakeModel>(fake);
    model = owned.get();
    if (head_accuracy >= 0) options.head = head = std::make_shared<FakeHead>(*model, head_accuracy, head_pool);
    engine = std::make_unique<Engine>(std::move(owned), std::move(options));
  }
  std::shared_ptr<CollectingSink> submit(EngineRequest request) {
    auto sink = std::make_shared<CollectingSink>();
    auto id = engine->submit(std::move(request), sink);
    EXPECT_TRUE(id) << id.error().message;
    if (id) last = *id;
    return sink;
  }
  FakeModel* model = nullptr;
  std::shared_ptr<FakeHead> head;
  std::unique_ptr<Engine> engine;
  RequestId last = 0;
};

inline EngineRequest request_of(std::vector<int32_t> prompt, int max_tokens, float temperature = 0) {
  EngineRequest r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling.temperature = temperature;
  r.sampling.seed = 7;
  return r;
}

// What a model without engine would say: one token after another from the whole history.
inline std::vector<int32_t> expected(const FakeOptions& fake, const EngineRequest& r, int count) {
  FakeModel model(fake);
  Sampler sampler(r.sampling);
  SamplerScratch scratch;
  sampler.extend_prompt(r.prompt);
  std::vector<int32_t> tokens = r.prompt;
  std::vector<float> logits(static_cast<size_t>(fake.vocab));
  for (int i = 0; i < count; ++i) {
    model.logits_of(tokens, logits);
    tokens.push_back(sampler.sample(logits, tokens.size(), scratch)->token);
    sampler.extend_output(tokens.back());
  }
  return {tokens.begin() + static_cast<ptrdiff_t>(r.prompt.size()), tokens.end()};
}

}  // namespace drafthorse::test
