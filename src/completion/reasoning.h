#pragma once
// Splits an answer into what the model thinks (<think> … </think>) and what it says, as the text arrives.

#include <string>
#include <string_view>

namespace drafthorse {

class ReasoningSplitter {
 public:
  enum class Start {
    off,     // everything is text
    maybe,   // reasoning if the answer begins with <think> (white space before it allowed)
    inside,  // the prompt opened the block
  };
  struct Pieces {
    std::string reasoning, text;
  };

  explicit ReasoningSplitter(Start start);

  // What is certain now. One newline after <think> and before </think>, and up to two after </think>, belong to the
  // markers. Reasoning always comes before text.
  Pieces feed(std::string_view input);
  // What was held back; a block that never closed is all reasoning.
  Pieces finish();
  // From the opening marker until the first text after the closing one.
  bool in_reasoning() const { return state_ != State::opening && state_ != State::text; }

 private:
  enum class State { opening, after_open, inside, after_close, text };

  State state_;
  std::string held_;
  int newlines_left_ = 2;
};

// How a prompt leaves the model: inside a block when its rendered text ends with an opened one; `maybe` when the
// template knows the marker at all.
ReasoningSplitter::Start reasoning_start(std::string_view rendered_prompt, std::string_view template_source);

}  // namespace drafthorse
