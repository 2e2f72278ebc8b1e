#pragma once
// A regular expression of a tokenizer file that is none of the published ones, run by PCRE2.

#include <functional>
#include <memory>
#include <string_view>

#include "core/result.h"

namespace drafthorse {

class Regex {
 public:
  // `pattern` in the dialect of the Oniguruma library, which Hugging Face's tokenizers use. Errors: invalid_argument
  // for a pattern that does not compile, unsupported for constructs that the two libraries read differently.
  static Result<std::shared_ptr<const Regex>> compile(std::string_view pattern);
  virtual ~Regex() = default;
  // Calls `on_match(start, end)` for each match in `text` (valid UTF-8), left to right, without overlaps. A search
  // that would exceed the match limit ends the walk, so the rest of the text counts as unmatched.
  virtual void for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& on_match) const = 0;
};

}  // namespace drafthorse
