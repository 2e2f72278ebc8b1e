// Equality with Hugging Face's tokenizers (for scores: with SentencePiece), line by line of the corpus.

#include <gtest/gtest.h>

#include "text/support/tokenizer_fixtures.h"

namespace drafthorse {
namespace {

using namespace test;

struct Case {
  std::string name;   // of the golden file
  std::string file;   // of the tokenizer
  bool real = false;  // a real model's vocabulary, which is not in the repository
};

std::string test_name(const Case& c) {
  std::string name = c.file.substr(0, c.file.size() - 5);
  for (char& letter : name)
    if (letter == '.') letter = '_';
  return name;
}

std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7F
               ? "\\x" + std::string(1, "0123456789ABCDEF"[byte >> 4]) + "0123456789ABCDEF"[byte & 15]
               : std::string(1, c);
  }
  return out;
}

// Without the ids at the end that only pad the vocabulary, which a tokenizer.json does not list.
int known_tokens(const Tokenizer& tokenizer) {
  int known = tokenizer.vocab_size();
  while (known > 0 && tokenizer.token_bytes(known - 1).empty()) --known;
  return known;
}

void expect_equal(const Tokenizer& tokenizer, const std::string& name) {
  const std::vector<std::string> lines = corpus(), expected = goldens(name);
  ASSERT_GE(lines.size(), 2000u);
  ASSERT_GE(expected.size(), lines.size());
  size_t judged = 0, wrong = 0;
  const auto judge = [&](size_t row, const std::vector<int32_t>& ids, const std::string& what) {
    if (expected[row] == "----") return;
    ++judged;
    if (golden_hash(tokenizer, ids) == expected[row] || ++wrong > 5) return;
    std::string list;
    for (const int32_t id : ids) list += std::to_string(id) + " ";
    ADD_FAILURE() << name << ", line " << row + 1 << ": " << printable(what) << "\n  gives " << list;
  };
  for (size_t i = 0; i < lines.size(); ++i) judge(i, tokenizer.encode(lines[i], {.parse_special = true}), lines[i]);
  for (size_t i = lines.size(); i < expected.size(); ++i) {
    judge(i, random_ids(static_cast<uint32_t>(i - lines.size()), known_tokens(tokenizer)), "decoding random ids");
  }
  EXPECT_EQ(wrong, 0u) << "of " << judged;
  EXPECT_GE(judged, 2000u);
}

class GoldenTest : public testing::TestWithParam<Case> {};

TEST_P(GoldenTest, EqualIdsAndText) {
  const Case& c = GetParam();
  const auto path = (c.real ? tokenizer_cache() : tokenizer_data()) / c.file;
  if (c.real && !std::filesystem::exists(path))
    GTEST_SKIP() << path << " is missing: tools/make_tokenizer_goldens.py --real makes it from the models' files";
  const auto tokenizer = load_tokenizer(path);
  ASSERT_TRUE(tokenizer);
  expect_equal(*tokenizer, c.name);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenTest,
                         testing::Values(Case{"qwen2", "qwen2.json"}, Case{"qwen35", "qwen35.json"},
                                         Case{"llama3", "llama3.json"}, Case{"smollm", "smollm.json"},
                                         Case{"tekken", "tekken.json"}, Case{"gpt4o", "gpt4o.json"},
                                         Case{"mistral", "mistral.json"}, Case{"gemma", "gemma.json"},
                                         Case{"metaspace", "metaspace.json"}, Case{"odd", "odd.json"},
                                         Case{"scores.gguf", "scores.gguf.json"},
                                         Case{"scores_plain.gguf", "scores_plain.gguf.json"}),
                         [](const auto& info) { return test_name(info.param); });
INSTANTIATE_TEST_SUITE_P(RealModels, GoldenTest,
                         testing::Values(Case{"smollm2", "smollm2.json", true},
                                         Case{"smollm2", "smollm2.gguf.json", true},
                                         Case{"qwen2.5", "qwen2.5.json", true},
                                         Case{"qwen2.5", "qwen2.5.gguf.json", true},
                                         Case{"qwen3.6", "qwen3.6.json", true}, Case{"gemma3", "gemma3.json", true},
                                         Case{"gemma3.gguf", "gemma3.gguf.json", true}),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace drafthorse
