#include <filesystem>

#include "completion/model_settings.h"
#include "laws/laws.h"
#include "laws/texts.h"

namespace drafthorse::test {
namespace {

TEST(Laws, OneAnswerOfSmolLM2) {
  const std::filesystem::path file =
      std::filesystem::path(DRAFTHORSE_SOURCE) / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file.string() << " is not there; ./run fetches it";
  auto checkpoint = Checkpoint::open(file);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  auto network = read_network(*checkpoint);
  ASSERT_TRUE(network) << network.error().message;
  auto tokenizer = load_tokenizer(**checkpoint);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;

  Subject subject;
  subject.make = [&](int threads, const std::string& isa) {
    return make_model(*network, threads, isa, 1024, 200u << 20);
  };
  for (const auto& text : texts())
    subject.prompts.push_back(
        (*tokenizer)
            ->encode("<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n", {.parse_special = true}));
  ASSERT_EQ(subject.prompts.size(), 40u);
  subject.answer = 16;
  subject.isas = {"avx2", "avx512", "neon"};  // the tiny models cover the portable kernels, which are slow
  expect_one_answer(subject, 2);
}

}  // namespace
}  // namespace drafthorse::test
