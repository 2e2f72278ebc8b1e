#include "text/pre_tokenizer.h"

#include "text/normalizer.h"
#include "text/unicode.h"

namespace drafthorse {
namespace {

using Sink = std::function<void(std::string_view)>;
using Range = std::pair<size_t, size_t>;

bool matches_class(CharSplit split, char32_t c) {
  const uint8_t bits = char_class(c);
  switch (split) {
    case CharSplit::digit:
    case CharSplit::digits: return bits & kNumber;
    case CharSplit::white_space: return bits & kSpace;
    case CharSplit::punctuation: return bits & kPunctuation;
  }
  return false;
}

struct ForEachMatch {
  std::string_view text;
  const std::function<void(size_t, size_t)>& on_match;

  void operator()(SplitRule rule) const {
    for (size_t at = 0; at < text.size();) {
      const size_t n = match_split_rule(rule, text, at);
      on_match(at, at + n);
      at += n;
    }
  }
  void operator()(const std::shared_ptr<const Regex>& regex) const { regex->for_each_match(text, on_match); }
  void operator()(const std::string& literal) const {
    for (size_t at = text.find(literal); at != std::string_view::npos; at = text.find(literal, at + literal.size()))
      on_match(at, at + literal.size());
  }
  void operator()(CharSplit split) const {
    size_t run = std::string_view::npos;
    for (size_t at = 0; at < text.size();) {
      uint32_t length = 0;
      const bool matched = matches_class(split, decode_valid_utf8(text.data() + at, &length));
      if (split != CharSplit::digits) {
        if (matched) on_match(at, at + length);
      } else if (matched && run == std::string_view::npos) {
        run = at;
      } else if (!matched && run != std::string_view::npos) {
        on_match(run, at);
        run = std::string_view::npos;
      }
      at += length;
    }
    if (run != std::string_view::npos) on_match(run, text.size());
  }
};

// Joins parts as the behaviour asks. `on_part(range, matched)` comes in order and covers the text; sends out ranges.
class Joiner {
 public:
  Joiner(SplitBehavior behavior, std::string_view text, const Sink& sink)
      : behavior_(behavior), text_(text), sink_(sink) {}

  void part(size_t start, size_t end, bool matched) {
    switch (behavior_) {
      case SplitBehavior::isolated: return send(start, end);
      case SplitBehavior::removed: return matched ? void() : send(start, end);
      case SplitBehavior::contiguous: return join(start, end, open_ && matched == last_, matched);
      case SplitBehavior::merged_with_previous: return join(start, end, open_ && matched && !last_, matched);
      case SplitBehavior::merged_with_next: return join(start, end, open_ && last_ && !matched, matched);
    }
  }
  void finish() {
    if (open_) send(start_, end_);
  }

 private:
  void join(size_t start, size_t end, bool with_last, bool matched) {
    if (!with_last) {
      finish();
      start_ = start;
    }
    end_ = end;
    open_ = true;
    last_ = matched;
  }
  void send(size_t start, size_t end) {
    if (end > start) sink_(text_.substr(start, end - start));
  }

  SplitBehavior behavior_;
  std::string_view text_;
  const Sink& sink_;
  size_t start_ = 0, end_ = 0;
  bool open_ = false, last_ = false;
};

void split(const Split& step, std::string_view text, const Sink& sink) {
  Joiner joiner(step.behavior, text, sink);
  size_t done = 0;
  const std::function<void(size_t, size_t)> on_match = [&](size_t start, size_t end) {
    if (start > done) joiner.part(done, start, step.invert);
    joiner.part(start, end, !step.invert);
    done = end;
  };
  std::visit(ForEachMatch{text, on_match}, step.pattern);
  if (done < text.size()) joiner.part(done, text.size(), step.invert);
  joiner.finish();
}

void metaspace(const Metaspace& step, std::string_view text, bool at_start, const Sink& sink) {
  std::string marked = replace_all(text, " ", step.replacement);
  const bool wanted = step.scheme == PrependScheme::always || (step.scheme == PrependScheme::first && at_start);
  if (wanted && !marked.starts_with(step.replacement)) marked.insert(0, step.replacement);
  if (!step.split) return sink(marked);
  split({step.replacement, SplitBehavior::merged_with_next, false}, marked, sink);
}

void newline_runs(std::string_view text, const Sink& sink) {
  for (size_t at = 0; at < text.size();) {
    size_t end = text[at] == '\n' ? text.find_first_not_of('\n', at) : text.find('\n', at);
    if (end == std::string_view::npos) end = text.size();
    sink(text.substr(at, end - at));
    at = end;
  }
}

void run(const std::vector<PreTokenizerStep>& steps, size_t index, std::string_view text, bool at_start,
         const Sink& sink) {
  if (text.empty()) return;
  if (index == steps.size()) return sink(text);
  const char* const begin = text.data();
  const Sink next = [&](std::string_view piece) {
    run(steps, index + 1, piece, at_start && piece.data() == begin, sink);
  };
  const Sink next_of_copy = [&](std::string_view piece) { run(steps, index + 1, piece, at_start, sink); };
  if (const auto* step = std::get_if<Split>(&steps[index]))
    return split(*step, text, index + 1 == steps.size() ? sink : next);
  if (std::holds_alternative<NewlineRuns>(steps[index])) return newline_runs(text, next);
  if (const auto* step = std::get_if<Metaspace>(&steps[index])) return metaspace(*step, text, at_start, next_of_copy);
  if (text.front() == ' ') return next(text);
  next_of_copy(std::string(1, ' ').append(text));
}

}  // namespace

void pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text, bool at_start,
                  const std::function<void(std::string_view)>& sink) {
  run(steps, 0, text, at_start, sink);
}

}  // namespace drafthorse
