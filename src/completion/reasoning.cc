#include "completion/reasoning.h"

#include <algorithm>
#include <utility>

namespace drafthorse {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>", kSpaces = " \t\r\n";

// Length of the longest end of `text` that begins `marker`.
size_t partial(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n)
    if (marker.starts_with(text.substr(text.size() - n))) return n;
  return 0;
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(Start start)
    : state_(start == Start::off     ? State::text
             : start == Start::maybe ? State::opening
                                     : State::after_open) {}

ReasoningSplitter::Pieces ReasoningSplitter::feed(std::string_view input) {
  Pieces out;
  held_.append(input);
  if (state_ == State::opening) {
    const size_t begin = std::min(held_.find_first_not_of(kSpaces), held_.size());
    const std::string_view rest = std::string_view(held_).substr(begin);
    if (rest.starts_with(kOpen)) {
      held_.erase(0, begin + kOpen.size());
      state_ = State::after_open;
    } else if (!kOpen.starts_with(rest)) {
      state_ = State::text;
    }
  }
  if (state_ == State::after_open && !held_.empty()) {
    if (held_[0] == '\n') held_.erase(0, 1);
    state_ = State::inside;
  }
  if (state_ == State::inside) {
    const size_t close = held_.find(kClose);
    if (close != std::string::npos) {
      out.reasoning = held_.substr(0, close);
      if (out.reasoning.ends_with('\n')) out.reasoning.pop_back();
      held_.erase(0, close + kClose.size());
      state_ = State::after_close;
    } else {
      size_t keep = partial(held_, kClose);
      if (keep < held_.size() && held_[held_.size() - keep - 1] == '\n') ++keep;
      out.reasoning = held_.substr(0, held_.size() - keep);
      held_.erase(0, held_.size() - keep);
    }
  }
  if (state_ == State::after_close) {
    while (newlines_left_ > 0 && held_.starts_with('\n')) {
      held_.erase(0, 1);
      --newlines_left_;
    }
    if (newlines_left_ == 0 || !held_.empty()) state_ = State::text;
  }
  if (state_ == State::text) out.text = std::exchange(held_, {});
  return out;
}

ReasoningSplitter::Pieces ReasoningSplitter::finish() {
  Pieces out;
  (state_ == State::inside ? out.reasoning : out.text) = std::exchange(held_, {});
  return out;
}

ReasoningSplitter::Start reasoning_start(std::string_view rendered_prompt, std::string_view template_source) {
  const size_t last = rendered_prompt.find_last_not_of(kSpaces);
  const auto trimmed = rendered_prompt.substr(0, last == std::string_view::npos ? 0 : last + 1);
  if (trimmed.ends_with(kOpen)) return ReasoningSplitter::Start::inside;
  if (template_source.find(kClose) == std::string_view::npos) return ReasoningSplitter::Start::off;
  return ReasoningSplitter::Start::maybe;
}

}  // namespace drafthorse
