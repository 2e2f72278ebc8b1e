// Renders templates for tools/fuzz_jinja.py and tools/make_template_goldens.py. One JSON object a line on stdin:
//   {"template": "…", "input": {messages, tools, variables, add_generation_prompt, bos_token, eos_token, now}}
// One a line on stdout: {"text": "…"} or {"error": "…"}.
#include <iostream>
#include <string>

#include <boost/json.hpp>

#include "text/chat_template.h"

namespace {

namespace json = boost::json;

std::string text_field(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

drafthorse::ChatTemplateInput input_of(const json::object& object) {
  drafthorse::ChatTemplateInput input;
  if (const auto* v = object.if_contains("messages")) input.messages = v->as_array();
  if (const auto* v = object.if_contains("tools"); v && v->is_array()) input.tools = v->as_array();
  if (const auto* v = object.if_contains("variables")) input.variables = v->as_object();
  if (const auto* v = object.if_contains("add_generation_prompt")) input.add_generation_prompt = v->as_bool();
  if (const auto* v = object.if_contains("now")) input.now = v->as_int64();
  input.bos_token = text_field(object, "bos_token");
  input.eos_token = text_field(object, "eos_token");
  return input;
}

json::object render(const json::object& request) {
  const auto parsed = drafthorse::ChatTemplate::parse(text_field(request, "template"));
  if (!parsed) return {{"error", parsed.error().message}};
  const auto text = (*parsed)->render(input_of(request.at("input").as_object()));
  if (!text) return {{"error", text.error().message}};
  return {{"text", *text}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << json::serialize(render(json::parse(line, {}, {.max_depth = 512}).as_object())) << std::endl;
}
