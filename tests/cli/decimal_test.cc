#include "cli/decimal.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <version>

namespace drafthorse {
namespace {

// Characters read (-1: not a number, -2: too large) and the value.
struct Read {
  double value = 7;
  long characters = -1;
  bool operator==(const Read&) const = default;
};

Read told(const std::string& text, std::from_chars_result result, double value) {
  if (result.ec == std::errc::invalid_argument) return {value, -1};
  if (result.ec == std::errc::result_out_of_range) return {value, -2};
  return {value, result.ptr - text.data()};
}

Read read(const std::string& text) {
  double value = 7;
  const auto result = parse_decimal(text.data(), text.data() + text.size(), value);
  return told(text, result, value);
}

TEST(Decimal, ReadsTheNumberThatATextBeginsWith) {
  EXPECT_EQ(read("1.5GiB"), (Read{1.5, 3}));
  EXPECT_EQ(read("-.5e1x"), (Read{-5, 5}));
  EXPECT_EQ(read("3e"), (Read{3, 1}));
  EXPECT_EQ(read("3.e+"), (Read{3, 2}));
  EXPECT_EQ(read("0x10"), (Read{0, 1}));
  EXPECT_EQ(read("1e999"), (Read{7, -2}));
  for (const char* text : {"", "-", ".", "-.", ".e1", "+1", " 1", "inf", "nan", "G"})
    EXPECT_EQ(read(text), Read()) << text;
}

#if defined(__cpp_lib_to_chars)
TEST(Decimal, ReadsWhatFromCharsReads) {
  const auto text = rc::gen::container<std::string>(rc::gen::elementOf(std::string("0123456789..-+eE xG")));
  EXPECT_TRUE(rc::check([&] {
    const std::string drawn = *text;
    double value = 7;
    const auto result = std::from_chars(drawn.data(), drawn.data() + drawn.size(), value);
    // Too small for a double: zero or the nearest there is, where from_chars calls it out of range.
    RC_PRE(result.ec != std::errc::result_out_of_range);
    RC_ASSERT(read(drawn) == told(drawn, result, value));
  }));
}
#endif

}  // namespace
}  // namespace drafthorse
