// Texts on which a tokenizer with a quadratic step would not come back. Rates are printed, never asserted.

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <cstdio>

#include "text/support/tokenizer_fixtures.h"

namespace drafthorse {
namespace {

using namespace test;

std::string repeated(std::string_view unit, size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  return text;
}

void encode_and_print(const Tokenizer& tokenizer, const std::string& name, const std::string& what,
                      const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer.encode(text, {.parse_special = true});
  const double encode = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string back = tokenizer.decode(ids, true);
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-16s %-32s %6.2f MB: encode %6.1f MB/s, decode %6.1f MB/s, %zu tokens\n", name.c_str(), what.c_str(),
              text.size() / 1e6, text.size() / 1e6 / encode, text.size() / 1e6 / (all - encode), ids.size());
  EXPECT_EQ(back.size(), text.size());
}

// One of each kind of model, and real vocabularies where they are.
std::vector<std::filesystem::path> tokenizer_files() {
  std::vector<std::filesystem::path> files;
  for (const char* name :
       {"llama3.json", "gpt4o.json", "smollm.json", "mistral.json", "gemma.json", "scores.gguf.json"})
    files.push_back(tokenizer_data() / name);
  for (const char* name : {"smollm2.gguf.json", "qwen3.6.json", "gemma3.gguf.json"})
    if (std::filesystem::exists(tokenizer_cache() / name)) files.push_back(tokenizer_cache() / name);
  return files;
}

TEST(TokenizerSpeed, LongTextsStayFast) {
  std::string mixed;
  for (const std::string& line : corpus())
    if (line.find("\u2581") == std::string::npos && line.size() < 400) mixed += line + "\n";
  const std::string prose =
      repeated("The old mill by the river hasn't turned since the flood of 1987; I'll bring two loaves, she'd said.\n",
               10'000'000);
  for (const auto& file : tokenizer_files()) {
    const auto tokenizer = load_tokenizer(file);
    ASSERT_TRUE(tokenizer);
    const std::string name = file.filename().string();
    encode_and_print(*tokenizer, name, "prose", prose);
    encode_and_print(*tokenizer, name, "one letter", std::string(1'000'000, 'a'));
    encode_and_print(*tokenizer, name, "letters without a space",
                     repeated("abcdefghijklmnopqrstuvwxyzthequick", 1'000'000));
    encode_and_print(*tokenizer, name, "CJK without a space",
                     repeated("河边的老磨坊自从洪水以后就再也没有转动过", 1'000'000));
    encode_and_print(*tokenizer, name, "spaces", std::string(1'000'000, ' ') + "x");
    encode_and_print(*tokenizer, name, "newlines", std::string(1'000'000, '\n'));
    encode_and_print(*tokenizer, name, "digits", repeated("31415926535897932384626433", 1'000'000));
    encode_and_print(*tokenizer, name, "upper and lower case", repeated("aAAAAAAAAAAAAAAAAAAAAAAAA", 1'000'000));
    encode_and_print(*tokenizer, name, "combining marks", "a" + repeated("\u0591", 1'000'000));
    encode_and_print(*tokenizer, name, "emoji", repeated("👩‍👩‍👧‍👦", 1'000'000));
    const std::string nasty = repeated(mixed, 4'000'000);
    const auto start = std::chrono::steady_clock::now();
    const size_t tokens = tokenizer->encode(nasty, {.parse_special = true}).size();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%-16s %-32s %6.2f MB: encode %6.1f MB/s, %zu tokens\n", name.c_str(), "the corpus, over and over",
                nasty.size() / 1e6, nasty.size() / 1e6 / seconds, tokens);
  }
}

TEST(TokenizerSpeed, ThousandsOfAddedTokens) {
  boost::json::object file = boost::json::parse(read_file(tokenizer_data() / "gemma.json")).as_object();
  boost::json::array& added = file["added_tokens"].as_array();
  const int64_t first = 4000;
  for (int64_t i = 0; i < 6000; ++i)
    added.push_back({{"id", first + i}, {"content", "<unused" + std::to_string(i) + ">"}, {"special", i % 2 == 0}});
  const auto tokenizer = Tokenizer::from_json(boost::json::serialize(file), "");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->encode("<unused42>", {.parse_special = true}), (std::vector<int32_t>{first + 42}));
  encode_and_print(**tokenizer, "6,000 added", "near misses", repeated("<unused<unused59999 <unused12", 10'000'000));
  encode_and_print(**tokenizer, "6,000 added", "hits", repeated("<unused1><unused5999>x", 10'000'000));
  encode_and_print(**tokenizer, "6,000 added", "prose",
                   repeated("two loaves, she'd said; we've got cheese\n", 10'000'000));
}

TEST(TokenizerSpeed, ARegexThatIsNoneOfThePublishedOnes) {
  const auto tokenizer = load_tokenizer(tokenizer_data() / "odd.json");
  const std::string text = repeated("two loaves, she'd said; we've got cheese\n", 10'000'000);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GT(tokenizer->encode(text).size(), 1'000'000u);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-16s %-32s %6.2f MB: encode %6.1f MB/s\n", "odd.json", "prose", text.size() / 1e6,
              text.size() / 1e6 / seconds);
}

}  // namespace
}  // namespace drafthorse
