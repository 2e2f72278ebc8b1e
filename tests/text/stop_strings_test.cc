#include "text/stop_strings.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace drafthorse {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> hit;
  bool operator==(const Outcome&) const = default;
};

Outcome in_parts(const std::vector<std::string>& stops, const std::vector<std::string>& parts) {
  StopStrings matcher(stops);
  Outcome outcome;
  for (const std::string& part : parts) outcome.text += matcher.feed(part);
  outcome.text += matcher.finish();
  outcome.hit = matcher.hit();
  return outcome;
}

// The definition, by brute force: the first end of any stop string, and there the longest.
Outcome by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      if (!best || stops[i].size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

TEST(StopStrings, MatchAcrossBorders) {
  EXPECT_EQ(in_parts({"END"}, {"one E", "N", "D two"}), (Outcome{"one ", 0}));
  EXPECT_EQ(in_parts({"END"}, {"one E", "N", "d two"}), (Outcome{"one ENd two", std::nullopt}));
  EXPECT_EQ(in_parts({"\n\n"}, {"a\n", "\nb"}), (Outcome{"a", 0}));
  EXPECT_EQ(in_parts({"aab"}, {"aa", "ab"}), (Outcome{"a", 0}));
  EXPECT_EQ(in_parts({"abc", "b"}, {"ab"}), (Outcome{"a", 1}));
  EXPECT_EQ(in_parts({"c", "abc"}, {"xabc"}), (Outcome{"x", 1}));
  EXPECT_EQ(in_parts({"€"}, {"5 ", "€", "!"}), (Outcome{"5 ", 0}));
  EXPECT_EQ(in_parts({""}, {"text"}), (Outcome{"text", std::nullopt}));
  EXPECT_EQ(in_parts({}, {"text"}), (Outcome{"text", std::nullopt}));
}

TEST(StopStrings, HoldBackOnlyWhatMayBecomeAStop) {
  StopStrings matcher({"</think>"});
  EXPECT_EQ(matcher.feed("a < b </"), "a < b ");
  EXPECT_EQ(matcher.feed("b>"), "</b>");
  EXPECT_EQ(matcher.feed("</thi"), "");
  EXPECT_EQ(matcher.finish(), "</thi");
  EXPECT_FALSE(matcher.hit());
}

TEST(StopStrings, NothingComesAfterAHit) {
  StopStrings matcher({"x"});
  EXPECT_EQ(matcher.feed("ax"), "a");
  EXPECT_EQ(matcher.feed("b"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStrings, AnySplitGivesTheSameResult) {
  EXPECT_TRUE(rc::check("splits", [] {
    const auto letter = rc::gen::elementOf(std::string("aab"));
    const auto stops = *rc::gen::resize(
        4, rc::gen::container<std::vector<std::string>>(rc::gen::resize(6, rc::gen::container<std::string>(letter))));
    const auto parts =
        *rc::gen::container<std::vector<std::string>>(rc::gen::resize(5, rc::gen::container<std::string>(letter)));
    std::string whole;
    for (const std::string& part : parts) whole += part;
    const Outcome expected = by_definition(stops, whole);
    RC_ASSERT(in_parts(stops, parts) == expected);
    RC_ASSERT(in_parts(stops, {whole}) == expected);
  }));
}

TEST(StopStrings, ALongStopOnARepeatingTextStaysLinear) {
  const std::string stop = "b" + std::string(1 << 20, 'a');
  StopStrings matcher({stop});
  std::string text;
  for (int i = 0; i < 64; ++i) text += matcher.feed("b" + std::string(1 << 14, 'a'));
  text += matcher.finish();
  EXPECT_EQ(text.size(), 64u * ((1 << 14) + 1));
}

}  // namespace
}  // namespace drafthorse
