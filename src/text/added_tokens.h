#pragma once
// Tokens that are matched as whole strings before any other rule: <|im_start|>, <think>, runs of spaces, …

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/flat_map.h"

namespace drafthorse {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;      // a control token: hidden on output
  bool normalized = false;   // looked for in normalised text, in its own normalised spelling
  bool single_word = false;  // only between characters that belong to no word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space behind it along
  // Anything but white space: text of a user that looks like it stays text unless asked otherwise.
  bool markup() const;
};

struct AddedTokenMatch {
  const AddedToken* token;
  size_t start, end;  // bytes of the text, stripped white space included
};

// A trie over the tokens' spellings. Matches are leftmost and, from one start, longest.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // spellings[i] is what tokens[i] looks like in the text. `tokens` must outlive the matcher.
  AddedTokenMatcher(std::span<const AddedToken* const> tokens, std::span<const std::string> spellings);

  bool empty() const { return tokens_.empty(); }
  // All matches in `text` (valid UTF-8), in order.
  std::vector<AddedTokenMatch> find_all(std::string_view text) const;

 private:
  int32_t longest_at(std::string_view text, size_t at) const;

  std::vector<const AddedToken*> tokens_;
  std::vector<size_t> lengths_;
  std::vector<int32_t> ends_;  // node -> index of the token that ends there, or -1
  FlatMap children_;           // node << 8 | byte -> node
  int32_t root_[256] = {};     // first byte -> node, 0: none
};

}  // namespace drafthorse
