// Answers of /v1/completions, streamed and whole.
#include <fmt/format.h>
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/json_text.h"
#include "api/openai_completions.h"
#include "api/sse.h"
#include "api/usage.h"

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
  explicit CompletionsStream(const AnswerInfo& info)
      : info_(info), usage_(info.n), head_(answer_head(info, "text_completion")), offsets_(info.choices) {}

  std::string begin() override { return ""; }

  std::string event(int choice, const Event& event) override {
    if (const auto* finish = std::get_if<Finish>(&event)) {
      usage_.add(choice, finish->usage);
      const bool last = ++finished_ == info_.choices && !info_.include_usage;
      return chunk(choice_json(choice, "", "null", finish->reason), last);
    }
    const auto* text = std::get_if<TextDelta>(&event);
    const bool logprobs = info_.logprobs && text && !text->logprobs.empty();
    if (text_of(event).empty() && !logprobs) return "";
    LogprobColumns columns;
    if (logprobs) columns.add(text->logprobs, offsets_[choice]);
    return chunk(choice_json(choice, std::string(text_of(event)), logprobs ? columns.json() : "null", ""), false);
  }

  std::string finish() override {
    std::string out;
    if (info_.include_usage) out = sse_data(head_ + "[],\"usage\":" + usage_.usage_json() + timings() + "}");
    return out + sse_data("[DONE]");
  }

  std::string error(const Error& error) override { return sse_data(error_body(error)); }

 private:
  std::string chunk(const std::string& choice, bool last) {
    return sse_data(head_ + "[" + choice + "]" + (info_.include_usage ? ",\"usage\":null" : "") +
                    (last ? timings() : "") + "}");
  }
  std::string timings() const { return info_.timings ? ",\"timings\":" + usage_.timings_json() : ""; }

  AnswerInfo info_;
  UsageTotals usage_;
  std::string head_;
  std::vector<size_t> offsets_;
  int finished_ = 0;
};

class CompletionsWhole final : public AnswerEncoder {
 public:
  explicit CompletionsWhole(const AnswerInfo& info) : info_(info), usage_(info.n), choices_(info.choices) {}

  std::string begin() override { return ""; }

  std::string event(int choice, const Event& event) override {
    Choice& c = choices_[choice];
    c.text += text_of(event);
    if (const auto* text = std::get_if<TextDelta>(&event)) c.columns.add(text->logprobs, c.offset);
    if (const auto* finish = std::get_if<Finish>(&event)) {
      c.reason = finish->reason;
      usage_.add(choice, finish->usage);
    }
    return "";
  }

  std::string finish() override {
    std::string out = answer_head(info_, "text_completion") + "[";
    for (int i = 0; i < info_.choices; ++i)
      out += (i ? "," : "") +
             choice_json(i, choices_[i].text, info_.logprobs ? choices_[i].columns.json() : "null", choices_[i].reason);
    out += "],\"usage\":" + usage_.usage_json();
    if (info_.timings) out += ",\"timings\":" + usage_.timings_json();
    return out + "}";
  }

  std::string error(const Error& error) override { return error_body(error); }

 private:
  struct Choice {
    std::string text, reason;
    LogprobColumns columns;
    size_t offset = 0;
  };
  AnswerInfo info_;
  UsageTotals usage_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerEncoder> completions_encoder(const AnswerInfo& info, bool stream) {
  if (stream) return std::make_unique<CompletionsStream>(info);
  return std::make_unique<CompletionsWhole>(info);
}

}  // namespace drafthorse
