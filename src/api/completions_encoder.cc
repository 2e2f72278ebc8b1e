// Answers of /v1/completions, streamed and whole.
#include <fmt/format.h>
#include <boost/json.hpp>

#include "api/answer_frame.h"
#include "api/errors.h"
#include "api/json_text.h"
#include "api/openai_completions.h"
#include "api/sse.h"

namespace drafthorse {
namespace {

// {"tokens":[…],"token_logprobs":[…],"top_logprobs":[{…}],"text_offset":[…]}, grown token by token.
class LogprobColumns {
 public:
  // `offset`: characters of the choice's text before the first token; moved on by each.
  void add(const std::vector<TokenLogprob>& logprobs, size_t& offset) {
    for (const TokenLogprob& entry : logprobs) {
      const char* comma = tokens_.empty() ? "" : ",";
      tokens_ += comma + json_quote(entry.bytes);
      values_ += comma + logprob_json(entry.logprob);
      offsets_ += comma + std::to_string(offset);
      tops_ += comma + std::string("{");
      for (size_t i = 0; i < entry.top.size(); ++i)
        tops_ += (i ? "," : "") + json_quote(entry.top[i].first) + ":" + logprob_json(entry.top[i].second);
      tops_ += "}";
      for (const char c : entry.bytes) offset += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }
  }
  std::string json() const {
    return "{\"tokens\":[" + tokens_ + "],\"token_logprobs\":[" + values_ + "],\"top_logprobs\":[" + tops_ +
           "],\"text_offset\":[" + offsets_ + "]}";
  }

 private:
  std::string tokens_, values_, tops_, offsets_;
};

std::string choice_json(int index, const std::string& text, const std::string& logprobs, const std::string& reason) {
  return fmt::format("{{\"index\":{},\"text\":", index) + json_quote(text) + ",\"logprobs\":" + logprobs +
         ",\"finish_reason\":" + (reason.empty() ? "null" : json_quote(reason)) + "}";
}

// The text of an event; a text completion has no other channel, so reasoning is text too.
std::string_view text_of(const Event& event) {
  if (const auto* text = std::get_if<TextDelta>(&event)) return text->text;
  if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) return reasoning->text;
  return {};
}

class CompletionsStream final : public AnswerEncoder {
 public:
  explicit CompletionsStream(const AnswerInfo& info) : frame_(info, "text_completion"), offsets_(info.choices) {}

  std::string begin() override { return ""; }

  std::string event(int choice, const Event& event) override {
    if (const auto* finish = std::get_if<Finish>(&event)) {
      const bool last = frame_.finish_choice(choice, finish->usage);
      return frame_.chunk(choice_json(choice, "", "null", finish->reason), last);
    }
    const auto* text = std::get_if<TextDelta>(&event);
    const bool logprobs = frame_.info().logprobs && text && !text->logprobs.empty();
    if (text_of(event).empty() && !logprobs) return "";
    LogprobColumns columns;
    if (logprobs) columns.add(text->logprobs, offsets_[choice]);
    return frame_.chunk(choice_json(choice, std::string(text_of(event)), logprobs ? columns.json() : "null", ""));
  }

  std::string finish() override { return frame_.stream_end(); }
  std::string error(const Error& error) override { return sse_data(error_body(error)); }

 private:
  AnswerFrame frame_;
  std::vector<size_t> offsets_;
};

class CompletionsWhole final : public AnswerEncoder {
 public:
  explicit CompletionsWhole(const AnswerInfo& info) : frame_(info, "text_completion"), choices_(info.choices) {}

  std::string begin() override { return ""; }

  std::string event(int choice, const Event& event) override {
    Choice& c = choices_[choice];
    c.text += text_of(event);
    if (const auto* text = std::get_if<TextDelta>(&event)) c.columns.add(text->logprobs, c.offset);
    if (const auto* finish = std::get_if<Finish>(&event)) {
      c.reason = finish->reason;
      frame_.finish_choice(choice, finish->usage);
    }
    return "";
  }

  std::string finish() override {
    std::vector<std::string> choices;
    for (const Choice& c : choices_)
      choices.push_back(choice_json(static_cast<int>(choices.size()), c.text,
                                    frame_.info().logprobs ? c.columns.json() : "null", c.reason));
    return frame_.whole(choices);
  }

  std::string error(const Error& error) override { return error_body(error); }

 private:
  struct Choice {
    std::string text, reason;
    LogprobColumns columns;
    size_t offset = 0;
  };
  AnswerFrame frame_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerEncoder> completions_encoder(const AnswerInfo& info, bool stream) {
  if (stream) return std::make_unique<CompletionsStream>(info);
  return std::make_unique<CompletionsWhole>(info);
}

}  // namespace drafthorse
