#include "cli/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace drafthorse {
namespace {

using ::testing::HasSubstr;

TEST(Chat, AnAnswerCannotSteerTheTerminal) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(terminal_text("one\n\ttwo \xC3\xA9 \xF0\x9F\x90\xB4"), "one\n\ttwo \xC3\xA9 \xF0\x9F\x90\xB4");
  EXPECT_EQ(terminal_text("\x1b]0;title\x07"), mark + "]0;title" + mark);
  EXPECT_EQ(terminal_text("\xC2\x9B"
                          "31m\x7F\r"),
            mark + "31m" + mark);
  EXPECT_EQ(terminal_text("a\r\nb"), "a\nb");
  EXPECT_EQ(terminal_text("\xC2\xA0"), "\xC2\xA0");
}

TEST(Chat, SettingsTakeSpacesAndEqualsSigns) {
  Conversation conversation;
  std::string said;
  const auto type = [&](const std::string& line) {
    said.clear();
    EXPECT_EQ(run_chat_command(line, conversation, [&](const std::string& text) { said += text + "\n"; }),
              ChatAction::go_on);
  };
  type("/set temperature 0.5");
  EXPECT_EQ(conversation.options.temperature, 0.5f);
  type("/set temperature = 0.7 ");
  EXPECT_EQ(conversation.options.temperature, 0.7f);
  type("/set temperature ");
  EXPECT_FALSE(conversation.options.temperature);
  EXPECT_EQ(said, "");
  for (const char* wrong : {"/set =", "/set nothing 1", "/set top_k x", "/set top_p 2", "/set draft often"}) {
    type(wrong);
    EXPECT_THAT(said, HasSubstr("is not understood")) << wrong;
  }
}

}  // namespace
}  // namespace drafthorse
