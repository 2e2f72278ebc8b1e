// Answers of /v1/chat/completions, streamed and whole.
#include <fmt/format.h>
#include <boost/json.hpp>

#include "api/answer_frame.h"
#include "api/errors.h"
#include "api/json_text.h"
#include "api/openai_chat.h"
#include "api/sse.h"

namespace drafthorse {
namespace {

std::string bytes_json(std::string_view bytes) {
  std::string out = "[";
  for (size_t i = 0; i < bytes.size(); ++i)
    out += fmt::format("{}{}", i ? "," : "", static_cast<unsigned char>(bytes[i]));
  return out + "]";
}

std::string token_json(std::string_view bytes, float logprob) {
  return "\"token\":" + json_quote(bytes) + ",\"logprob\":" + logprob_json(logprob) + ",\"bytes\":" + bytes_json(bytes);
}

void append_logprobs(std::string& out, const std::vector<TokenLogprob>& logprobs) {
  for (const TokenLogprob& entry : logprobs) {
    if (!out.empty()) out += ',';
    out += "{" + token_json(entry.bytes, entry.logprob) + ",\"top_logprobs\":[";
    for (size_t i = 0; i < entry.top.size(); ++i)
      out += (i ? ",{" : "{") + token_json(entry.top[i].first, entry.top[i].second) + "}";
    out += "]}";
  }
}

std::string call_json(int index, const std::string& id, const std::string& name, bool with_index,
                      const std::string& arguments) {
  return (with_index ? fmt::format("{{\"index\":{},", index) : std::string("{")) + "\"id\":" + json_quote(id) +
         ",\"type\":\"function\",\"function\":{\"name\":" + json_quote(name) +
         ",\"arguments\":" + json_quote(arguments) + "}}";
}

class ChatStream final : public AnswerEncoder {
 public:
  explicit ChatStream(const AnswerInfo& info) : frame_(info, "chat.completion.chunk") {}

  std::string begin() override {
    std::string out;
    for (int choice = 0; choice < frame_.info().choices; ++choice)
      out += delta(choice, R"("role":"assistant","content":"")");
    return out;
  }

  std::string event(int choice, const Event& event) override {
    return std::visit([&](const auto& e) { return encode(choice, e); }, event);
  }

  std::string finish() override { return frame_.stream_end(); }
  std::string error(const Error& error) override { return sse_data(error_body(error)); }

 private:
  std::string encode(int choice, const ReasoningDelta& e) {
    return e.text.empty() ? "" : delta(choice, "\"reasoning_content\":" + json_quote(e.text));
  }
  std::string encode(int choice, const TextDelta& e) {
    const bool with_logprobs = frame_.info().logprobs;
    if (e.text.empty() && (!with_logprobs || e.logprobs.empty())) return "";
    std::string logprobs;
    if (with_logprobs) append_logprobs(logprobs, e.logprobs);
    return delta(choice, "\"content\":" + json_quote(e.text),
                 with_logprobs ? "{\"content\":[" + logprobs + "],\"refusal\":null}" : "null");
  }
  std::string encode(int choice, const ToolCallBegin& e) {
    return delta(choice, "\"tool_calls\":[" + call_json(e.index, e.id, e.name, true, "") + "]");
  }
  std::string encode(int choice, const ToolCallArguments& e) {
    return delta(choice, fmt::format("\"tool_calls\":[{{\"index\":{},\"function\":{{\"arguments\":{}}}}}]", e.index,
                                     json_quote(e.fragment)));
  }
  std::string encode(int, const ToolCallEnd&) { return ""; }
  std::string encode(int choice, const Finish& e) {
    const bool last = frame_.finish_choice(choice, e.usage);
    return frame_.chunk(fmt::format("{{\"index\":{},\"delta\":{{}},\"logprobs\":null,\"finish_reason\":{}}}", choice,
                                    json_quote(e.reason)),
                        last);
  }

  std::string delta(int choice, const std::string& fields, const std::string& logprobs = "null") const {
    return frame_.chunk(fmt::format("{{\"index\":{},\"delta\":{{", choice) + fields + "},\"logprobs\":" + logprobs +
                        ",\"finish_reason\":null}");
  }

  AnswerFrame frame_;
};

class ChatWhole final : public AnswerEncoder {
 public:
  explicit ChatWhole(const AnswerInfo& info) : frame_(info, "chat.completion"), choices_(info.choices) {}

  std::string begin() override { return ""; }

  std::string event(int choice, const Event& event) override {
    std::visit([&](const auto& e) { take(choice, e); }, event);
    return "";
  }

  std::string finish() override {
    std::vector<std::string> choices;
    for (int i = 0; i < frame_.info().choices; ++i) choices.push_back(choice_json(i));
    return frame_.whole(choices);
  }

  std::string error(const Error& error) override { return error_body(error); }

 private:
  struct Call {
    std::string id, name, arguments;
  };
  struct Choice {
    std::string text, reasoning, logprobs, reason;
    std::vector<Call> calls;
  };

  void take(int choice, const ReasoningDelta& e) { choices_[choice].reasoning += e.text; }
  void take(int choice, const TextDelta& e) {
    choices_[choice].text += e.text;
    if (frame_.info().logprobs) append_logprobs(choices_[choice].logprobs, e.logprobs);
  }
  void take(int choice, const ToolCallBegin& e) { choices_[choice].calls.push_back({e.id, e.name, ""}); }
  void take(int choice, const ToolCallArguments& e) {
    if (!choices_[choice].calls.empty()) choices_[choice].calls.back().arguments += e.fragment;
  }
  void take(int, const ToolCallEnd&) {}
  void take(int choice, const Finish& e) {
    choices_[choice].reason = e.reason;
    frame_.finish_choice(choice, e.usage);
  }

  std::string choice_json(int index) const {
    const Choice& c = choices_[index];
    std::string out = fmt::format("{{\"index\":{},\"message\":{{\"role\":\"assistant\",\"content\":", index);
    out += c.text.empty() && !c.calls.empty() ? "null" : json_quote(c.text);
    out += ",\"refusal\":null";
    if (!c.reasoning.empty()) out += ",\"reasoning_content\":" + json_quote(c.reasoning);
    for (size_t i = 0; i < c.calls.size(); ++i)
      out +=
          (i ? "," : ",\"tool_calls\":[") + call_json(0, c.calls[i].id, c.calls[i].name, false, c.calls[i].arguments);
    if (!c.calls.empty()) out += "]";
    out +=
        "},\"logprobs\":" + (frame_.info().logprobs ? "{\"content\":[" + c.logprobs + "],\"refusal\":null}" : "null");
    return out + ",\"finish_reason\":" + json_quote(c.reason) + "}";
  }

  AnswerFrame frame_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerEncoder> chat_encoder(const AnswerInfo& info, bool stream) {
  if (stream) return std::make_unique<ChatStream>(info);
  return std::make_unique<ChatWhole>(info);
}

}  // namespace drafthorse
