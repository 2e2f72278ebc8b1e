#pragma once
// What the answers of both OpenAI formats share: the frame around the choices, usage and timings.

#include <span>
#include <string>
#include <string_view>

#include "api/request.h"
#include "api/usage.h"

namespace drafthorse {

class AnswerFrame {
 public:
  // object: "chat.completion", "chat.completion.chunk", "text_completion".
  AnswerFrame(const AnswerInfo& info, std::string_view object);

  const AnswerInfo& info() const { return info_; }
  // Counts a choice that ended; true when it was the last one.
  bool finish_choice(int choice, const Usage& usage);

  // An event with one choice. `last`: timings go with it, unless a usage chunk follows.
  std::string chunk(std::string_view choice, bool last = false) const;
  // The usage chunk when it was asked for, then [DONE].
  std::string stream_end() const;
  // The whole answer.
  std::string whole(std::span<const std::string> choices) const;

 private:
  std::string timings() const;

  AnswerInfo info_;
  UsageTotals usage_;
  std::string head_;
  int finished_ = 0;
};

}  // namespace drafthorse
