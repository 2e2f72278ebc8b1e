#include "text/unicode.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace drafthorse {
namespace {

TEST(Unicode, ClassesFollowTheUnicodeDatabase) {
  EXPECT_EQ(char_class(U'A'), kUpper | kWord);
  EXPECT_EQ(char_class(U'ǅ'), kUpper | kWord);  // Lt
  EXPECT_EQ(char_class(U'ß'), kLower | kWord);
  EXPECT_EQ(char_class(U'ʰ'), kCaseless | kWord);  // Lm
  EXPECT_EQ(char_class(U'中'), kCaseless | kWord);
  EXPECT_EQ(char_class(U'\u0301'), kMark | kWord);
  EXPECT_EQ(char_class(U'Ⅷ'), kNumber | kWord);  // Nl
  EXPECT_EQ(char_class(U'½'), kNumber);          // No
  EXPECT_EQ(char_class(U'٣'), kNumber | kWord);  // Nd
  EXPECT_EQ(char_class(U'_'), kPunctuation | kWord);
  EXPECT_EQ(char_class(U'$'), kPunctuation);
  EXPECT_EQ(char_class(U'€'), 0);
  for (const uint32_t c : {0x09, 0x0A, 0x0B, 0x0D, 0x20, 0x85, 0xA0, 0x2003, 0x2028, 0x3000})
    EXPECT_TRUE(char_class(c) & kSpace) << c;
  EXPECT_FALSE(char_class(0x200B) & kSpace);  // zero width space is no White_Space
  EXPECT_EQ(char_class(0x110000), 0);
}

TEST(Unicode, InvalidSequencesAreReplacedPerMaximalSubpart) {
  // The example of the Unicode Standard, table 3-11 and its neighbours.
  EXPECT_EQ(replace_invalid_utf8("\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"), "���b�c��d");
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "��������A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\x41"), "������A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "�����A��B");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98x", true), "���x");
  EXPECT_EQ(replace_invalid_utf8("\xEF\xBF\xBD"), "\xEF\xBF\xBD");
}

TEST(Unicode, TailIsIncompleteOnlyWhenItCanBecomeACharacter) {
  EXPECT_EQ(incomplete_utf8_tail("a\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_utf8_tail("a\xE2\xE2\x82"), 2u);
  EXPECT_EQ(incomplete_utf8_tail("a\xF0\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_tail("\xC3"), 1u);
  EXPECT_EQ(incomplete_utf8_tail("\xC3\xA9"), 0u);
  EXPECT_EQ(incomplete_utf8_tail("\xEF\xBF\xBD"), 0u);
  EXPECT_EQ(incomplete_utf8_tail("\x80\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_tail(""), 0u);
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalise("e\u0301 plain", NormalForm::nfc), "é plain");
  EXPECT_EQ(normalise("é", NormalForm::nfd), "e\u0301");
  EXPECT_EQ(normalise("ﬁ①", NormalForm::nfkc), "fi1");
  EXPECT_EQ(normalise("한", NormalForm::nfc), "한");
  EXPECT_TRUE(is_surely_nfc("déjà"));
  EXPECT_FALSE(is_surely_nfc("e\u0301"));
  EXPECT_EQ(lowercase("ÀÉİ Σ"), "àéi̇ σ");
}

TEST(Unicode, ReplacingIsIdempotentAndKeepsValidText) {
  EXPECT_TRUE(rc::check("replace_invalid_utf8", [](const std::string& bytes) {
    const std::string repaired = replace_invalid_utf8(bytes);
    RC_ASSERT(is_valid_utf8(repaired));
    RC_ASSERT(replace_invalid_utf8(repaired) == repaired);
    RC_ASSERT(is_valid_utf8(bytes) == (repaired == bytes));
  }));
  EXPECT_TRUE(rc::check("append, decode", [] {
    const auto c = static_cast<char32_t>(*rc::gen::inRange(0, 0x110000));
    RC_PRE(c < 0xD800 || c > 0xDFFF);
    std::string text;
    append_utf8(text, c);
    const DecodedChar decoded = decode_utf8(text, 0);
    uint32_t length = 0;
    RC_ASSERT(decoded.valid && decoded.code_point == c && decoded.length == text.size());
    RC_ASSERT(decode_valid_utf8(text.data(), &length) == c && length == text.size());
  }));
}

}  // namespace
}  // namespace drafthorse
