#pragma once
// Byte pair encoding by ranked merges: the adjacent pair of lowest rank is joined first, the leftmost one on ties.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "text/subword_model.h"

namespace drafthorse {

struct BpeOptions {
  bool byte_level = false;          // symbols start as bytes (tokens hold raw bytes); otherwise as characters
  bool byte_fallback = false;       // a character without a token becomes its bytes' <0xXX> tokens
  bool fuse_unk = false;            // neighbouring unknown characters become one unknown token
  bool ignore_merges = false;       // a piece that is a token as a whole is that token
  bool whole_newline_runs = false;  // the same for pieces that consist of \n only
  std::optional<int32_t> unk;       // without it unknown characters leave no token
};

struct BpeVocabulary {
  // Strings that ordinary text may become, with their ids: raw bytes when byte_level. Views need to live only for the
  // call.
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  // Left and right part of each merge in rank order; a part is in `tokens`, the joined string too.
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  // Ids that merging must never produce (markup that only the added-token matcher may recognise).
  std::vector<int32_t> forbidden;
};

// Error (corrupt): a merge names a string that is no token.
Result<std::unique_ptr<const SubwordModel>> make_bpe(const BpeVocabulary& vocabulary, const BpeOptions& options);

// The spelling of a byte token, "<0x0A>".
std::string byte_token(uint8_t byte);
// The byte of such a token.
std::optional<uint8_t> parse_byte_token(std::string_view token);

}  // namespace drafthorse
