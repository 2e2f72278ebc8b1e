#pragma once
// Cuts normalised text into the pieces that the subword model sees one by one.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/split_rule.h"

namespace drafthorse {

// What happens to the text that a pattern matches.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

enum class CharSplit { digit, digits, white_space, punctuation };  // \p{N}, \p{N}+, White_Space, punctuation

struct Split {
  // A published regex, another one, a literal string, or a class of characters.
  std::variant<SplitRule, std::shared_ptr<const Regex>, std::string, CharSplit> pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what is between the matches takes the part of the matches
};
struct AddPrefixSpace {};  // a piece that does not start with a space gets one
enum class PrependScheme { always, first, never };
struct Metaspace {  // spaces become `replacement`, one is prepended by `scheme`
  std::string replacement;
  PrependScheme scheme;
  bool split;  // then a piece starts at each replacement
};
struct NewlineRuns {};  // runs of \n apart from the rest
using PreTokenizerStep = std::variant<Split, AddPrefixSpace, Metaspace, NewlineRuns>;

// text: valid UTF-8; at_start: it begins where the whole input does. Calls `sink` with each piece that is not empty;
// the view lives for the call.
void pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text, bool at_start,
                  const std::function<void(std::string_view)>& sink);

}  // namespace drafthorse
