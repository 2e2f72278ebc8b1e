#include "cli/edit_buffer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cli/progress_bar.h"

namespace drafthorse {
namespace {

// What stands in the buffer after these bytes were typed, with the cursor shown as |.
std::string typed(std::string bytes) {
  EditBuffer buffer;
  while (!bytes.empty()) {
    size_t before = bytes.size();
    KeyPress press = take_key(bytes);
    if (bytes.size() == before) break;
    buffer.apply(press);
  }
  std::string text = buffer.text();
  return text.insert(buffer.cursor(), "|");
}

TEST(EditBuffer, Edits) {
  EXPECT_EQ(typed("abc"), "abc|");
  EXPECT_EQ(typed("abc\x1b[D\x1b[DX"), "aX|bc");
  EXPECT_EQ(typed("abc\x7f\x7f"), "a|");
  EXPECT_EQ(typed("abc\x01\x1b[3~"), "|bc");
  EXPECT_EQ(typed("one two\x17"), "one |");
  EXPECT_EQ(typed("one two\x1b[1;5D\x0b"), "one |");
  EXPECT_EQ(typed("one two\x02\x15"), "|o");
  EXPECT_EQ(typed("ab\x1b[99zc"), "abc|") << "an unknown sequence leaves no trace";
}

TEST(EditBuffer, CharactersStayWhole) {
  EXPECT_EQ(typed("a\xC3\xA4\xF0\x9F\x90\xB4\x7f"), "a\xC3\xA4|");
  EXPECT_EQ(typed("\xC3\xA4\xC3\xB6\x1b[D\x7f"), "|\xC3\xB6");
}

TEST(EditBuffer, AnUnfinishedKeyWaits) {
  std::string bytes = "\x1b[";
  EXPECT_EQ(take_key(bytes).key, Key::none);
  EXPECT_EQ(bytes, "\x1b[");
  bytes = "\xF0\x9F";
  EXPECT_EQ(take_key(bytes).key, Key::none);
  EXPECT_EQ(bytes.size(), 2u);
}

RC_GTEST_PROP(EditBuffer, AnyBytesKeepTheCursorInside, (std::string bytes)) {
  EditBuffer buffer;
  for (size_t before = bytes.size() + 1; !bytes.empty() && bytes.size() < before;) {
    before = bytes.size();
    buffer.apply(take_key(bytes));
    RC_ASSERT(buffer.cursor() <= buffer.text().size());
    VisibleLine line = visible_part(buffer.text(), buffer.cursor(), 10);
    RC_ASSERT(line.cursor_cell < 10u);
  }
}

TEST(History, WalksAndComesBack) {
  History history({"a", "b"});
  EXPECT_EQ(history.older("draft"), "b");
  EXPECT_EQ(history.older("b"), "a");
  EXPECT_EQ(history.older("a"), "a");
  EXPECT_EQ(history.newer("a"), "b");
  EXPECT_EQ(history.newer("b"), "draft");
  history.add("b");
  EXPECT_EQ(history.lines().size(), 2u) << "the same line twice in a row is kept once";
}

TEST(VisiblePart, FollowsTheCursor) {
  EXPECT_EQ(visible_part("abcdefgh", 0, 5).text, "abcde");
  VisibleLine end = visible_part("abcdefgh", 8, 5);
  EXPECT_EQ(end.text, "efgh");
  EXPECT_EQ(end.cursor_cell, 4u);
  EXPECT_EQ(visible_part("a\nb", 3, 9).text, "a↵b");
}

TEST(Human, Amounts) {
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(98362432), "98.4 MB");
  EXPECT_EQ(human_bytes(1117320768), "1.12 GB");
  EXPECT_EQ(human_seconds(8.2), "8 s");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
}

}  // namespace
}  // namespace drafthorse
