#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace drafthorse {
namespace {

constexpr uint32_t kSpaceMark = 0x2581;  // ▁, the space of SentencePiece vocabularies

// The character that ends right before `at` (at > 0) of valid UTF-8, and where it starts.
char32_t previous_character(std::string_view text, size_t at, size_t* start) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  *start = at;
  return decode_utf8(text, at).code_point;
}

bool inside_word(std::string_view text, size_t start, size_t end) {
  size_t unused = 0;
  if (start > 0 && (char_class(previous_character(text, start, &unused)) & kWord)) return true;
  return end < text.size() && (char_class(decode_utf8(text, end).code_point) & kWord);
}

size_t skip_space_back(std::string_view text, size_t at) {
  for (size_t start = 0; at > 0 && (char_class(previous_character(text, at, &start)) & kSpace);) at = start;
  return at;
}

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const DecodedChar c = decode_utf8(text, at);
    if (!(char_class(c.code_point) & kSpace)) break;
    at += c.length;
  }
  return at;
}

}  // namespace

bool AddedToken::markup() const {
  for (size_t at = 0; at < content.size();) {
    const DecodedChar c = decode_utf8(content, at);
    if (c.code_point != kSpaceMark && !(char_class(c.code_point) & kSpace)) return true;
    at += c.length;
  }
  return false;
}

AddedTokenMatcher::AddedTokenMatcher(std::span<const AddedToken* const> tokens, std::span<const std::string> spellings)
    : tokens_(tokens.begin(), tokens.end()), ends_(1, -1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    lengths_.push_back(spellings[i].size());
    int32_t node = 0;
    for (const char c : spellings[i]) {
      const auto fresh = static_cast<int32_t>(ends_.size());
      const uint64_t key = static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(c);
      if (children_.insert(key, static_cast<uint64_t>(fresh))) ends_.push_back(-1);
      const auto child = static_cast<int32_t>(*children_.find(key));
      if (node == 0) root_[static_cast<uint8_t>(c)] = child;
      node = child;
    }
    if (node != 0) ends_[node] = static_cast<int32_t>(i);
  }
}

int32_t AddedTokenMatcher::longest_at(std::string_view text, size_t at) const {
  int32_t best = -1;
  for (int32_t node = root_[static_cast<uint8_t>(text[at])]; node != 0;) {
    if (ends_[node] >= 0) best = ends_[node];
    if (++at >= text.size()) break;
    const uint64_t* child = children_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(text[at]));
    node = child ? static_cast<int32_t>(*child) : 0;
  }
  return best;
}

std::vector<AddedTokenMatch> AddedTokenMatcher::find_all(std::string_view text) const {
  std::vector<AddedTokenMatch> matches;
  size_t taken = 0;  // where the last match, its stripped white space included, ended
  for (size_t at = 0; at < text.size();) {
    const int32_t found = longest_at(text, at);
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = *tokens_[found];
    size_t start = at, end = at + lengths_[found];
    at = end;
    if (token.single_word && inside_word(text, start, end)) continue;
    if (token.lstrip) start = std::max(skip_space_back(text, start), taken);
    if (token.rstrip) end = skip_space(text, end);
    matches.push_back({&token, std::max(start, taken), end});
    taken = end;
  }
  return matches;
}

}  // namespace drafthorse
