#pragma once
// From an answer's tokens to events. Fed by the engine, and in tests by hand.

#include <chrono>

#include "completion/completion.h"
#include "completion/reasoning.h"
#include "text/stop_strings.h"

namespace drafthorse {

struct AnswerOptions {
  std::vector<int32_t> stop_tokens;  // never text
  std::vector<std::string> stop;     // end the text; matched on what the model says, not on what it thinks
  ReasoningSplitter::Start reasoning = ReasoningSplitter::Start::off;
  bool logprobs = false;
  uint64_t seed = 0;                  // reported back
  std::string echo;                   // text that comes first
  std::optional<int32_t> prompt_end;  // last prompt token when the answer goes on in the middle of its text
};

class AnswerSink final : public TokenSink {
 public:
  AnswerSink(std::shared_ptr<const Tokenizer> tokenizer, AnswerOptions options, EventHandler handler);

  bool on_tokens(std::span<const TokenEvent> tokens) override;
  void on_finish(FinishReason reason, const RequestStats& stats, const Error* error) override;

 private:
  void take(std::string_view decoded);
  void take(ReasoningSplitter::Pieces pieces);
  void emit();
  TokenLogprob describe(const TokenEvent& token) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  AnswerOptions options_;
  EventHandler handler_;
  StreamDecoder decoder_;
  ReasoningSplitter splitter_;
  StopStrings stop_strings_;
  int tokens_ = 0, reasoning_tokens_ = 0;  // taken so far
  // What the next events carry. Tokens whose text is held back wait here for it.
  std::string reasoning_;
  TextDelta text_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> first_token_;
};

}  // namespace drafthorse
