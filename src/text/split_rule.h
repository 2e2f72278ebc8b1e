#pragma once
// The published pre-tokeniser regexes, matched by hand: one pass, no backtracking beyond a character or two.

#include <cstddef>
#include <optional>
#include <string_view>

namespace drafthorse {

// Names follow the models that brought the regex.
enum class SplitRule {
  qwen2,   // (?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  qwen35,  // the same with marks inside words
  llama3,  // qwen2 with \p{N}{1,3}
  gpt2,    // 's|…| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  tekken,  // words split where lower case turns to upper case, single digits
  gpt4o,   // tekken with contractions kept at the word and \p{N}{1,3}
};

// The regex of a rule, exactly as tokenizer.json files spell it.
std::string_view split_rule_regex(SplitRule rule);
// The rule whose published regex is exactly `regex`, if any.
std::optional<SplitRule> find_split_rule(std::string_view regex);
// Bytes of the match that starts at text[at] (valid UTF-8, at < size). Each rule matches at every position.
size_t match_split_rule(SplitRule rule, std::string_view text, size_t at);

}  // namespace drafthorse
