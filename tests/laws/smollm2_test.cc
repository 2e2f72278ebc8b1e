#include <filesystem>

#include "completion/model_settings.h"
#include "laws/laws.h"

namespace drafthorse::test {
namespace {

// Forty prompts: questions, code, lists, other languages, digits, and texts that repeat themselves.
std::vector<std::string> texts() {
  std::vector<std::string> list;
  const char* topics[] = {"the sea", "a violin",  "rust on iron", "bees", "the number seven",
                          "snow",    "a bicycle", "tea",          "maps", "glass"};
  for (const char* topic : topics) list.push_back(std::string("Tell me one thing about ") + topic + ".");
  for (int i = 1; i <= 6; ++i) {
    std::string lines;
    for (int k = 0; k < 3 * i; ++k)
      lines += "item " + std::to_string(k % 4) + " = " + std::to_string(k * 37 % 101) + "\n";
    list.push_back("Repeat these lines exactly:\n" + lines);
  }
  for (const char* word : {"name", "count", "total", "index", "value", "flag"}) {
    const std::string w = word;
    list.push_back("Rename " + w + " to x:\ndef f(" + w + "):\n    if " + w + " > 0:\n        return " + w +
                   " + 1\n    return " + w + "\n");
  }
  list.insert(
      list.end(),
      {"Was ist das Meer?", "\xC2\xBFQu\xC3\xA9 es el mar?",
       "\xE6\xB5\xB7\xE6\x98\xAF\xE4\xBB\x80\xE4\xB9\x88\xEF\xBC\x9F",
       "\xD0\xA7\xD1\x82\xD0\xBE \xD1\x82\xD0\xB0\xD0\xBA\xD0\xBE\xD0\xB5 \xD0\xBC\xD0\xBE\xD1\x80\xD0\xB5?",
       "\xF0\x9F\x90\xB4\xF0\x9F\x90\xB4\xF0\x9F\x90\xB4", "1234567890 1234567890 1234567890",
       "{\"a\": [1, 2, {\"b\": null}]}", "    indented\n\tand tabbed\n\n\n", "a", "SELECT * FROM t WHERE id = 1;"});
  for (int n : {2, 4, 8, 16, 24, 32, 48, 64}) {
    std::string long_text;
    for (int k = 0; k < n; ++k) long_text += "The quick brown fox jumps over the lazy dog. ";
    list.push_back(long_text);
  }
  return list;
}

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
  subject.make = [&](int threads, const std::string& isa) -> std::unique_ptr<Model> {
    BackendOptions options;
    options.backend = "cpu";
    options.threads = threads;
    options.isa = isa;
    options.context = 1024;
    options.kv_bytes = 200u << 20;
    auto model = load_model(*network, options);
    if (!model) {
      EXPECT_NE(isa, "auto") << model.error().message;
      return nullptr;
    }
    return std::move(*model);
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
