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
  EXPECT_EQ(
      rendered("{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m.content + '<|im_end|>\n'}}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
               "{}", R"([{"role": "user", "content": "Hi"}])"),
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, ErrorsCarryTheLine) {
  EXPECT_EQ(rendered("a\n{{ raise_exception('No way') }}"), "error: chat template line 2: No way");
  EXPECT_EQ(rendered("a\n\n{% if %}"),
            "parse error: the chat template cannot be parsed: template line 3: expected an expression, found '%}'");
}

// Each pair was checked against jinja2 3.1.2; they are the places where an engine goes wrong easily.
TEST(ChatTemplate, PythonSemantics) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{{ [1, 2.0, 1e16, 1e-5, true, none, 'it\\'s', {'a': (1,)}] }}",
       "[1, 2.0, 1e+16, 1e-05, True, None, \"it's\", {'a': (1,)}]"},
      {"{{ 7 // -2 }} {{ 7 % -2 }} {{ -7 // 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1 / 2 }}", "-4 -1 -4 64 4 0.5"},
      {"{{ 'héllo'[::-1] }} {{ 'abc'[-2:] }} {{ [1, 2, 3][::-2] }} {{ range(4)[5:-1] }}",
       "olléh bc [3, 1] range(4, 3)"},
      {"{{ missing }}|{{ missing is defined }}|{{ none.x }}|{{ {}.x is undefined }}|{{ missing ~ 'a' }}",
       "|False||True|a"},
      {"{{ ' a b  c '.split() }} {{ ' a b  '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'ab'.split('x') }}",
       "['a', 'b', 'c'] ['a', 'b  '] ['a,b', 'c'] ['ab']"},
      {"{{ {'b': 1, 'A': 2}|dictsort }} {{ ['b', 'A', 'c']|sort }} {{ [3, 1]|sort(reverse=true) }}",
       "[('A', 2), ('b', 1)] ['A', 'b', 'c'] [3, 1]"},
      {"{{ {'é<': [1, '\\n']}|tojson }} {{ {'b': 1, 'a': []}|tojson(indent=1, sort_keys=true) }}",
       "{\"é<\": [1, \"\\n\"]} {\n \"a\": [],\n \"b\": 1\n}"},
      {"{{ 'ß'.upper() }} {{ 'ΑΣ'.lower() }} {{ \"they're\".title() }} {{ \"they're\"|title }}",
       "SS ας They'Re They're"},
      {"{% for x in [1, 2, 3] if x > 1 %}{{ loop.index }}/{{ loop.length }}{{ ',' if not loop.last }}{% else %}-{% endfor %}",
       "1/2,2/2"},
      {"{% for x in [1] %}{% continue %}{% else %}else{% endfor %}", "else"},
      {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1"},
      {"{% macro m(a, b=a, *c) %}{% endmacro %}",
       "parse error: the chat template cannot be parsed: template line 1: expected a name, found '*'"},
      {"{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 3, 4, k=5) }}",
       "13(4,){'k': 5}"},
      {"{% macro m() %}[{{ caller('x') }}]{% endmacro %}{% call(v) m() %}{{ v }}{{ v }}{% endcall %}", "[xx]"},
      {"{% macro m() %}{{ late }}{% endmacro %}{{ m() }}{% set late = 1 %}{{ m() }}", "1"},
      {"{{ '<a>'|safe + '<b>' }} {{ '<a>'|e }} {{ ['<']|join|safe }}", "<a>&lt;b&gt; &lt;a&gt; <"},
      {"{{ '%05.2f|%-4s|%x' % (3.14159, 'a', 255) }} {{ '{:>4}|{:,}|{!r}'.format(1, 12345, 'q') }}",
       "03.14|a   |ff    1|12,345|'q'"},
      {"a\n  {% if true %}\n  b\n  {%- endif %}\n\n{{- 'c' }}\n", "a\n  bc"},
      {"{% raw %}{{ x }}{% endraw %}{# c #}{% generation %}g{% endgeneration %}", "{{ x }}g"},
      {"{% for r in [{'v': 1, 'c': [{'v': 2}]}] recursive %}{{ r.v }}{% if r.c %}({{ loop(r.c) }}){% endif %}{{ loop.depth }}{% endfor %}",
       "1(22)1"},
      {"{{ 170141183460469231731687303715884105727 }} {{ 9007199254740993 == 9007199254740992.0 }}",
       "170141183460469231731687303715884105727 False"},
  };
  for (const auto& [source, wanted] : kCases) EXPECT_EQ(rendered(source, R"({"late": "early"})"), wanted) << source;
}

TEST(ChatTemplate, OperationsThatPythonRefuses) {
  for (const char* source :
       {"{{ missing.x }}", "{{ missing + 1 }}", "{{ 'a' + 1 }}", "{{ 1 < 'a' }}", "{{ none|length }}",
        "{{ [1].append(2) }}", "{{ {}|tojson|nothing }}", "{{ 1 / 0 }}", "{% for x in none %}{% endfor %}",
        "{{ missing|tojson }}", "{{ 'abc'.index('x') }}", "{% set a, b = [1] %}", "{% include 'x' %}", "{{ {[]: 1} }}",
        "{{ 'a'|int|first }}", "{{ (1).x() }}"})
    EXPECT_NE(rendered(source).find("error: "), std::string::npos) << source;
}

TEST(ChatTemplate, ControlBytesSurvive) {
  EXPECT_EQ(rendered("{{ messages[0].content }}{{ messages[0].content|tojson }}", "{}",
                     R"([{"content": "\u0000\u001b[1m\u007f\u2028"}])"),
            std::string("\0\x1b[1m\x7f\xe2\x80\xa8\"\\u0000\\u001b[1m\x7f\xe2\x80\xa8\"", 30));
}

TEST(ChatTemplate, HostileTemplatesEnd) {
  EXPECT_NE(
      rendered("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}").find("work limit"),
      std::string::npos);
  EXPECT_NE(rendered("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("recurses too deeply"), std::string::npos);
  EXPECT_NE(
      rendered(
          "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}")
          .find("memory limit"),
      std::string::npos);
  EXPECT_NE(rendered("{{ 'x' * 10 ** 30 }}").find("memory limit"), std::string::npos);
  EXPECT_NE(rendered("{{ " + std::string(100'000, '(') + "1").find("nested too deeply"), std::string::npos);
  EXPECT_EQ(
      rendered(
          "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{% set ns.ns = ns %}ok"),
      "ok");
}

}  // namespace
}  // namespace drafthorse
