#pragma once
// What a tokenizer does to text before it is cut up.

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"

namespace drafthorse {

struct Lowercase {};
struct Prepend {
  std::string text;  // put in front of every text that is not empty
};
struct ReplaceText {
  std::string from, to;
};
struct ReplaceRegex {
  std::shared_ptr<const Regex> from;
  std::string to;
};
struct StripSpace {
  bool left, right;
};
using NormalizerStep = std::variant<NormalForm, Lowercase, Prepend, ReplaceText, ReplaceRegex, StripSpace>;

// text: valid UTF-8. Applies the steps in order.
std::string normalise(const std::vector<NormalizerStep>& steps, std::string_view text);
// True when no step can change `text`, cheaply decided; false says nothing.
bool leaves_alone(const std::vector<NormalizerStep>& steps, std::string_view text);
// All occurrences of `from` (not empty), left to right, become `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace drafthorse
