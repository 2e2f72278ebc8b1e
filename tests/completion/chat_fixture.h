#pragma once
// A byte-level tokenizer with the markers of a chat format, and a template that uses them.

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "support/tiny_models.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace drafthorse::test {

inline constexpr int kImStart = 256, kImEnd = 257, kThink = 258, kEndThink = 259, kToolCall = 260;

// ids 0..255 are bytes; then <|im_start|>, <|im_end|> (hidden), <think>, </think>, <tool_call> (visible).
inline std::shared_ptr<const Tokenizer> chat_tokenizer() {
  boost::json::object vocab;
  boost::json::array added;
  int id = 0;
  for (const auto& letter : byte_alphabet()) vocab[letter] = id++;
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>"}) {
    added.push_back(boost::json::object{{"id", id}, {"content", token}, {"special", id <= kImEnd}});
    ++id;
  }
  const boost::json::object byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const boost::json::object tokenizer = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", boost::json::array()}}}};
  auto parsed = Tokenizer::from_json(boost::json::serialize(tokenizer), R"({"eos_token": "<|im_end|>"})");
  EXPECT_TRUE(parsed) << parsed.error().message;
  return *parsed;
}

// ChatML; an earlier answer loses what it thought, contents are trimmed, several text parts are joined.
inline constexpr const char* kChatTemplate =
    "{%- for message in messages %}"
    "{%- if message.content is string %}{%- set content = message.content %}"
    "{%- else %}{%- set ns = namespace(text='') %}{%- for part in message.content %}{%- set ns.text = ns.text + part.text %}"
    "{%- endfor %}{%- set content = ns.text %}{%- endif %}"
    "{%- if message.role == 'assistant' and '</think>' in content %}"
    "{%- set content = content.split('</think>')[-1] %}{%- endif %}"
    "{{- '<|im_start|>' + message.role + '\\n' + content | trim + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if tools %}{{- tools | tojson }}{%- endif %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking %}{{- '<think>\\n' }}{%- endif %}{%- endif %}";

inline std::shared_ptr<const ChatTemplate> chat_template() {
  auto parsed = ChatTemplate::parse(kChatTemplate);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return *parsed;
}

inline ChatTemplateInput chat(std::initializer_list<std::pair<const char*, boost::json::value>> messages) {
  ChatTemplateInput input;
  for (const auto& [role, content] : messages)
    input.messages.push_back(boost::json::object{{"role", role}, {"content", content}});
  return input;
}

}  // namespace drafthorse::test
