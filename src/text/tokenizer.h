#pragma once
// Text to token ids and back.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace drafthorse {

// The tokenizer.ggml.* keys of a GGUF file, as plain data (text/ does not read GGUF).
struct GgufVocabulary {
  std::string model, pre;  // "gpt2" / "llama" / "gemma4"; "smollm", "qwen2", …
  std::vector<std::string> tokens;
  std::vector<int64_t> token_types;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<double> scores;
  std::vector<std::string> merges;
  std::optional<int32_t> bos, eos, unk, eot, eom;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

struct EncodeOptions {
  // true: added tokens inside the text become their ids. false: they are plain text; only those made of white space
  // alone (runs of spaces or newlines, which cannot be mistaken for markup) are still matched.
  bool parse_special = false;
  bool add_bos = false;  // prepend BOS when the tokenizer's own rules say so
};

class Tokenizer {
 public:
  // tokenizer.json, and tokenizer_config.json when there is one (may be empty).
  static Result<std::shared_ptr<const Tokenizer>> from_json(std::string_view tokenizer_json,
                                                            std::string_view tokenizer_config_json);
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufVocabulary& vocabulary);

  virtual ~Tokenizer() = default;
  // Any bytes are accepted; invalid UTF-8 is treated as U+FFFD per maximal invalid sequence.
  virtual std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  // The bytes of one token (may be part of a UTF-8 character); empty for ids without a token.
  virtual std::string_view token_bytes(int32_t id) const = 0;
  // The whole text; special tokens are left out unless asked. Invalid UTF-8 becomes U+FFFD.
  virtual std::string decode(std::span<const int32_t> ids, bool keep_special = false) const = 0;
  virtual bool is_special(int32_t id) const = 0;  // control tokens: hidden on output
  // Every added token's text (special or not): what encode() with parse_special matches as a whole.
  virtual std::vector<std::string_view> added_tokens() const = 0;
  virtual std::optional<int32_t> token_id(std::string_view token) const = 0;  // exact token, added or ordinary
  virtual int vocab_size() const = 0;                                         // highest id + 1
  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;
  virtual bool adds_bos() const = 0;
  // True when the decoder strips one leading space of the whole text (SentencePiece with a prefix space).
  virtual bool strips_leading_space() const = 0;
  // True when decoding gives one U+FFFD for each invalid byte (byte-fallback vocabularies) instead of one for each
  // maximal invalid sequence.
  virtual bool replaces_each_invalid_byte() const { return false; }
};

// Turns tokens into text as they come: never a broken character, and the concatenation of everything returned
// equals decode() of all the ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool keep_special = false);
  std::string push(int32_t id);  // text that is now certain
  std::string finish();          // the incomplete tail, as U+FFFD

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool keep_special_;
  bool first_ = true;
  std::string pending_;
};

}  // namespace drafthorse
