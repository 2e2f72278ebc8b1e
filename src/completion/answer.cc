#include "completion/answer.h"

#include <algorithm>
#include <utility>

namespace drafthorse {
namespace {

std::string name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::cancelled: return "cancelled";
    case FinishReason::error: return "error";
  }
  return "error";
}

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

AnswerSink::AnswerSink(std::shared_ptr<const Tokenizer> tokenizer, AnswerOptions options, EventHandler handler)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      handler_(std::move(handler)),
      decoder_(tokenizer),
      splitter_(options_.reasoning),
      stop_strings_(options_.stop) {
  text_.text = std::move(options_.echo);
  // A leading space is part of a text that goes on; only that of a new text is dropped by such tokenizers.
  if (options_.prompt_end && tokenizer_->strips_leading_space()) (void)decoder_.push(*options_.prompt_end);
}

bool AnswerSink::on_tokens(std::span<const TokenEvent> tokens) {
  if (!first_token_) first_token_ = std::chrono::steady_clock::now();
  const auto& stops = options_.stop_tokens;
  for (const auto& token : tokens) {
    ++tokens_;
    if (std::find(stops.begin(), stops.end(), token.token) != stops.end()) continue;
    take(decoder_.push(token.token));
    if (stop_strings_.hit()) break;
    if (splitter_.in_reasoning()) {
      ++reasoning_tokens_;
      text_.tokens.clear();  // white space before the block
      text_.logprobs.clear();
    } else {
      text_.tokens.push_back(token.token);
      if (options_.logprobs) text_.logprobs.push_back(describe(token));
    }
  }
  emit();
  return !stop_strings_.hit().has_value();
}

void AnswerSink::on_finish(FinishReason reason, const RequestStats& stats, const Error* error) {
  if (!stop_strings_.hit()) {
    take(decoder_.finish());
    take(splitter_.finish());
    text_.text += stop_strings_.finish();
    emit();
    // Tokens that made no text (a hidden token, say) still belong to the answer's log probabilities.
    if (!text_.logprobs.empty()) handler_(std::exchange(text_, {}));
  }
  const auto now = std::chrono::steady_clock::now();
  Finish finish;
  finish.reason = stop_strings_.hit() ? "stop" : name(reason);
  finish.usage.stats = stats;
  finish.usage.reasoning_tokens = reasoning_tokens_;
  // A step that verified drafts may have brought tokens past the stop string; how many must not show.
  if (stop_strings_.hit()) finish.usage.stats.completion_tokens = tokens_;
  finish.usage.seed = options_.seed;
  finish.usage.first_token_seconds = first_token_ ? seconds(*first_token_ - start_) : 0;
  finish.usage.total_seconds = seconds(now - start_);
  if (error) finish.error = *error;
  handler_(std::move(finish));
}

void AnswerSink::take(std::string_view decoded) {
  if (!decoded.empty()) take(splitter_.feed(decoded));
}

void AnswerSink::take(ReasoningSplitter::Pieces pieces) {
  reasoning_ += pieces.reasoning;
  if (!pieces.text.empty()) text_.text += stop_strings_.feed(pieces.text);
}

void AnswerSink::emit() {
  if (!reasoning_.empty()) handler_(ReasoningDelta{std::exchange(reasoning_, {})});
  if (!text_.text.empty()) handler_(std::exchange(text_, {}));
}

TokenLogprob AnswerSink::describe(const TokenEvent& token) const {
  TokenLogprob out;
  out.token = token.token;
  out.bytes = std::string(tokenizer_->token_bytes(token.token));
  out.logprob = token.logprob;
  for (const auto& top : token.top) out.top.emplace_back(tokenizer_->token_bytes(top.token), top.logprob);
  return out;
}

}  // namespace drafthorse
