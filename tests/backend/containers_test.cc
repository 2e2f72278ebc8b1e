// One model in both containers gives the same logits: GGUF's permuted rows with interleaved rope are Hugging Face's
// rows with rope over halves.

#include <gtest/gtest.h>

#include "backend/support/run_model.h"
#include "support/tiny_models.h"

namespace drafthorse::test {
namespace {

TEST(Containers, GgufAndHuggingFaceFilesOfOneModelAgree) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    SCOPED_TRACE(family);
    TempFolder folder;
    const TinyModel model{.family = family, .tied = false};
    const auto a = load(open_network(write_tiny_hf(folder / "hf", model)), reference(false));
    const auto b = load(open_network(write_tiny_gguf(folder / "m.gguf", model, Format::f32)), reference(false));
    const std::vector<int32_t> tokens = random_tokens(40, model.vocab, 3);
    const Logits expected = run(*a, tokens, 40), found = run(*b, tokens, 40);
    ASSERT_EQ(expected.size(), found.size());
    float largest = 0, worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::fabs(expected[i]));
      worst = std::max(worst, std::fabs(expected[i] - found[i]));
    }
    EXPECT_GT(largest, 1.0f);
    EXPECT_LT(worst, 1e-5f * largest);
  }
}

}  // namespace
}  // namespace drafthorse::test
