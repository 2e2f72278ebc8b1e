// Every family's template against what jinja2 makes of it (tools/make_template_goldens.py).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "text/chat_template.h"

namespace drafthorse {
namespace {

namespace json = boost::json;

std::string file_text(const std::string& name) {
  std::ifstream file(std::string(DRAFTHORSE_TEST_DATA) + "/templates/" + name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::shared_ptr<const ChatTemplate> load(const std::string& name) {
  auto parsed = ChatTemplate::parse(file_text(name));
  EXPECT_TRUE(parsed) << name << ": " << (parsed ? "" : parsed.error().message);
  return parsed ? *parsed : nullptr;
}

ChatTemplateInput input_of(const json::object& given, int64_t now) {
  ChatTemplateInput input;
  input.messages = given.at("messages").as_array();
  if (const auto* tools = given.if_contains("tools")) input.tools = tools->as_array();
  if (const auto* variables = given.if_contains("variables")) input.variables = variables->as_object();
  if (const auto* prompt = given.if_contains("add_generation_prompt")) input.add_generation_prompt = prompt->as_bool();
  input.bos_token = "<bos>";
  input.eos_token = "<eos>";
  input.now = now;
  return input;
}

TEST(ChatTemplateGoldens, EveryFamilyRendersAsJinja2) {
  setenv("TZ", "UTC", 1);
  tzset();
  const json::object file = json::parse(file_text("goldens.json")).as_object();
  std::map<std::string, std::shared_ptr<const ChatTemplate>> templates;
  size_t compared = 0, failing = 0;
  for (const json::value& golden : file.at("goldens").as_array()) {
    const std::string name(golden.at("template").as_string()), which(golden.at("case").as_string());
    if (!templates.contains(name)) templates[name] = load(name);
    ASSERT_TRUE(templates[name]);
    const auto text = templates[name]->render(
        input_of(file.at("cases").as_object().at(which).as_object(), file.at("now").as_int64()));
    ++compared;
    if (const auto* wanted = golden.as_object().if_contains("text")) {
      EXPECT_TRUE(text) << name << ", " << which << ": " << (text ? "" : text.error().message);
      if (text) {
        EXPECT_EQ(*text, wanted->as_string()) << name << ", " << which;
      }
    } else {
      ++failing;
      EXPECT_FALSE(text) << name << ", " << which << " must fail, made: " << (text ? *text : "");
    }
  }
  EXPECT_EQ(templates.size(), 12u);
  EXPECT_GT(compared - failing, 200u);
  EXPECT_GT(failing, 25u);
}

TEST(ChatTemplateGoldens, LongConversationIsQuick) {
  const auto parsed = load("qwen35.jinja");
  ASSERT_TRUE(parsed);
  ChatTemplateInput input;
  for (int i = 0; i < 100; ++i) {
    json::object user = {{"role", "user"}, {"content", "Question " + std::string(2000, 'q')}};
    json::object answer = {{"role", "assistant"},
                           {"content", "<think>\nhm\n</think>\n\nAnswer " + std::string(2000, 'a')}};
    answer["tool_calls"] = json::parse(R"([{"function": {"name": "f", "arguments": {"n": 1, "list": [1, 2]}}}])");
    input.messages.push_back(std::move(user));
    input.messages.push_back(std::move(answer));
  }
  double best_ms = 1e9;
  size_t size = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto text = parsed->render(input);
    best_ms =
        std::min(best_ms, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    ASSERT_TRUE(text) << text.error().message;
    size = text->size();
  }
  std::printf("200 messages, %zu bytes of prompt: %.2f ms\n", size, best_ms);
  RecordProperty("milliseconds", std::to_string(best_ms));
  EXPECT_GT(size, 400'000u);
}

}  // namespace
}  // namespace drafthorse
