#pragma once
// A tokenizer as data: what from_json and from_gguf read, and what the one implementation of Tokenizer runs.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace drafthorse {

// How token strings become text.
struct DecoderSpec {
  bool byte_level = false;     // strings are in the byte alphabet
  bool byte_fallback = false;  // "<0x0A>" is a byte; an invalid byte becomes one U+FFFD each
  std::vector<std::pair<std::string, std::string>> replacements;  // in order, on each token's string
  bool strip_leading_space = false;                               // one, of the whole text
};

struct TokenizerSpec {
  std::vector<std::string> tokens;  // by id, as the file spells them; empty: no such token
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderSpec decoder;
  std::unique_ptr<const SubwordModel> model;
  std::optional<int32_t> bos, eos;
  bool adds_bos = false;
};

// Ids may leave gaps, within reason: a file must not make us allocate for ids that it does not fill.
inline constexpr int64_t kMaxTokenId = (1 << 22) - 1;

// spec.tokens has at most kMaxTokenId + 1 entries and room for every id of spec.added.
std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec);

// The BPE of spec.tokens. merges: (left, right) as the file spells them. Merges that would produce markup (an added
// token that only its own matcher may recognise) are left out. Error (corrupt): a merge of strings that are no tokens.
Result<std::unique_ptr<const SubwordModel>> make_bpe_model(
    const TokenizerSpec& spec, const std::vector<std::pair<std::string, std::string>>& merges,
    const BpeOptions& options);

}  // namespace drafthorse
