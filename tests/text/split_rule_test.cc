#include "text/split_rule.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"

namespace drafthorse {
namespace {

using Pieces = std::vector<std::string>;
constexpr SplitRule kAll[] = {SplitRule::qwen2, SplitRule::qwen35, SplitRule::llama3,
                              SplitRule::gpt2,  SplitRule::tekken, SplitRule::gpt4o};

Pieces by_hand(SplitRule rule, std::string_view text) {
  Pieces pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t n = match_split_rule(rule, text, at);
    EXPECT_GT(n, 0u);
    if (n == 0) break;
    pieces.emplace_back(text.substr(at, n));
    at += n;
  }
  return pieces;
}

Pieces by_regex(SplitRule rule, std::string_view text) {
  const auto regex = Regex::compile(split_rule_regex(rule));
  Pieces pieces;
  (*regex)->for_each_match(text,
                           [&](size_t start, size_t end) { pieces.emplace_back(text.substr(start, end - start)); });
  return pieces;
}

TEST(SplitRule, WhiteSpaceGoesToTheWordBehindIt) {
  EXPECT_EQ(by_hand(SplitRule::qwen2, "   word"), (Pieces{"  ", " word"}));
  EXPECT_EQ(by_hand(SplitRule::qwen2, " \n \n x"), (Pieces{" \n \n", " x"}));
  EXPECT_EQ(by_hand(SplitRule::gpt2, " \n \n x"), (Pieces{" \n \n", " x"}));
  EXPECT_EQ(by_hand(SplitRule::qwen2, "a \t"), (Pieces{"a", " \t"}));
  EXPECT_EQ(by_hand(SplitRule::qwen2, "\tx"), (Pieces{"\tx"}));
  EXPECT_EQ(by_hand(SplitRule::gpt2, "\tx"), (Pieces{"\t", "x"}));
}

TEST(SplitRule, DigitsAndContractionsFollowTheFamily) {
  EXPECT_EQ(by_hand(SplitRule::qwen2, "1234"), (Pieces{"1", "2", "3", "4"}));
  EXPECT_EQ(by_hand(SplitRule::llama3, "1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(by_hand(SplitRule::gpt2, " 1234"), (Pieces{" 1234"}));
  EXPECT_EQ(by_hand(SplitRule::qwen2, "I'LL"), (Pieces{"I", "'LL"}));
  EXPECT_EQ(by_hand(SplitRule::gpt2, "I'LL"), (Pieces{"I", "'", "LL"}));
  EXPECT_EQ(by_hand(SplitRule::gpt4o, "I'LL go"), (Pieces{"I'LL", " go"}));
  EXPECT_EQ(by_hand(SplitRule::tekken, "camelCaseHTTPServer"), (Pieces{"camel", "Case", "HTTPServer"}));
}

TEST(SplitRule, TheRegexIsRecognisedByItsText) {
  for (const SplitRule rule : kAll) EXPECT_EQ(find_split_rule(split_rule_regex(rule)), rule);
  EXPECT_FALSE(find_split_rule("\\p{L}+"));
}

// Code points of every class that the rules ask about, so that short random texts meet the borders between them.
std::string random_text() {
  static const std::vector<std::string> parts = {
      "a",      "b",      "Z", "É",  "ß",  "ǅ",   "ʰ",   "中",     "ª",      "\u0301", "\u0903", "1",
      "٣",      "Ⅷ",      "½", " ",  " ",  "  ",  "\t",  "\n",     "\r",     "\r\n",   "\u00A0", "\u2003",
      "\u0085", "\u2028", "'", "'s", "'S", "'ll", "'Ve", "'re",    "'m",     "'D",     "'T",     "s",
      "l",      "e",      "/", ".",  "-",  "€",   "😀",   "\u200D", "\uFFFD", "\v"};
  std::string text;
  const int n = *rc::gen::inRange(0, 24);
  for (int i = 0; i < n; ++i) text += *rc::gen::elementOf(parts);
  return text;
}

TEST(SplitRule, HandWrittenMatchersEqualTheirRegexes) {
  for (const SplitRule rule : kAll) {
    EXPECT_TRUE(rc::check("equal pieces", [rule] {
      for (int i = 0; i < 40; ++i) {
        const std::string text = random_text();
        RC_ASSERT(by_hand(rule, text) == by_regex(rule, text));
      }
    }));
  }
}

// Surrogates, what Unicode 15 added to the basic plane (PCRE2's tables may be older), and U+180E, white space to PCRE2.
bool differs_by_version(uint32_t c) {
  return (c >= 0xD800 && c <= 0xDFFF) || c == 0x0CF3 || c == 0x0ECE || c == 0x180E;
}

TEST(SplitRule, HandWrittenMatchersEqualTheirRegexesOnAnyCodePoint) {
  for (const SplitRule rule : kAll) {
    EXPECT_TRUE(rc::check("equal pieces", [rule] {
      std::string text;
      for (const uint32_t raw : *rc::gen::container<std::vector<uint32_t>>(40, rc::gen::inRange<uint32_t>(1, 0x10000)))
        if (!differs_by_version(raw)) append_utf8(text, raw);
      RC_ASSERT(by_hand(rule, text) == by_regex(rule, text));
    }));
  }
}

}  // namespace
}  // namespace drafthorse
