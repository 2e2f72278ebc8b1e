#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace drafthorse {
namespace {

namespace json = boost::json;

std::string rendered(std::string_view source, std::string_view variables = "{}", std::string_view messages = "[]") {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return "parse error: " + parsed.error().message;
  ChatTemplateInput input;
  input.messages = json::parse(messages).as_array();
  input.variables = json::parse(variables).as_object();
  const auto text = (*parsed)->render(input);
  return text ? *text : "error: " + text.error().message;
}

TEST(ChatTemplate, ChatMl) {
  EXPECT_EQ(rendered("{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m.content + '<|im_end|>\n'}}{% endfor %}"
                     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
                     "{}", R"([{"role": "user", "content": "Hi"}])"),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, ErrorsCarryTheLine) {
  EXPECT_EQ(rendered("a\n{{ raise_exception('No way') }}"), "error: chat template line 2: No way");
  EXPECT_EQ(rendered("a\n\n{% if %}"), "parse error: the chat template cannot be parsed: template line 3: expected an expression, found '%}'");
}

TEST(ChatTemplate, HostileTemplatesEnd) {
  EXPECT_NE(rendered("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}").find("work limit"), std::string::npos);
  EXPECT_NE(rendered("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("recurses too deeply"), std::string::npos);
  EXPECT_NE(rendered("{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}").find("memory limit"), std::string::npos);
  EXPECT_NE(rendered("{{ 'x' * 10 ** 30 }}").find("memory limit"), std::string::npos);
  EXPECT_NE(rendered("{{ " + std::string(100'000, '(') + "1").find("nested too deeply"), std::string::npos);
  EXPECT_EQ(rendered("{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{% set ns.ns = ns %}ok"), "ok");
}

}  // namespace
}  // namespace drafthorse
