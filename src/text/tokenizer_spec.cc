#include "text/tokenizer_spec.h"

#include <algorithm>
#include <unordered_map>

#include "text/byte_alphabet.h"

namespace drafthorse {
namespace {

std::string decoded_bytes(const DecoderSpec& decoder, const std::string& token) {
  if (decoder.byte_level) {
    if (auto bytes = bytes_of_token(token)) return *bytes;
    return token;
  }
  if (decoder.byte_fallback)
    if (const auto byte = parse_byte_token(token)) return std::string(1, static_cast<char>(*byte));
  std::string text = token;
  for (const auto& [from, to] : decoder.replacements) text = replace_all(text, from, to);
  return text;
}

class SpecTokenizer : public Tokenizer {
 public:
  explicit SpecTokenizer(TokenizerSpec spec) : spec_(std::move(spec)) {
    special_.resize(spec_.tokens.size());
    for (const std::string& token : spec_.tokens) bytes_.push_back(decoded_bytes(spec_.decoder, token));
    for (size_t id = 0; id < spec_.tokens.size(); ++id)
      if (!spec_.tokens[id].empty()) ids_.emplace(spec_.tokens[id], static_cast<int32_t>(id));
    for (const AddedToken& token : spec_.added) {
      // Its text may be outside the byte alphabet's meaning ("é" is no spelling of a byte here), but ▁ is a space as ever.
      if (spec_.decoder.byte_level) bytes_[token.id] = token.content;
      special_[token.id] = token.special;
      ids_[token.content] = token.id;
    }
    for (const bool plain : {false, true})
      for (const bool normalized : {false, true}) matchers_[plain][normalized] = make_matcher(plain, normalized);
  }

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const override {
    std::string repaired;
    if (!is_valid_utf8(text)) text = repaired = replace_invalid_utf8(text);
    std::vector<int32_t> ids;
    const auto scratch = spec_.model->make_scratch(text.size());
    const AddedTokenMatcher& raw = matchers_[!options.parse_special][false];
    const AddedTokenMatcher& normalised = matchers_[!options.parse_special][true];
    split_added(raw, text, ids, [&](std::string_view part, bool at_start) {
      std::string changed;
      if (!leaves_alone(spec_.normalizer, part)) part = changed = normalise(spec_.normalizer, part);
      split_added(normalised, part, ids, [&](std::string_view piece, bool first) {
        pre_tokenize(spec_.pre_tokenizer, piece, at_start && first,
                     [&](std::string_view word) { spec_.model->encode(word, *scratch, ids); });
      });
    });
    const bool want_bos = options.add_bos && spec_.adds_bos && spec_.bos;
    if (want_bos && (ids.empty() || ids.front() != *spec_.bos)) ids.insert(ids.begin(), *spec_.bos);
    return ids;
  }

  std::string_view token_bytes(int32_t id) const override {
    return known(id) ? std::string_view(bytes_[id]) : std::string_view();
  }

  std::string decode(std::span<const int32_t> ids, bool keep_special) const override {
    std::string bytes;
    for (const int32_t id : ids)
      if (keep_special || !is_special(id)) bytes.append(token_bytes(id));
    std::string_view text = bytes;
    if (strips_leading_space() && text.starts_with(' ')) text.remove_prefix(1);
    return replace_invalid_utf8(text, replaces_each_invalid_byte());
  }

  bool is_special(int32_t id) const override { return known(id) && special_[id]; }
  std::vector<std::string_view> added_tokens() const override {
    std::vector<std::string_view> texts;
    for (const AddedToken& token : spec_.added) texts.push_back(token.content);
    return texts;
  }
  std::optional<int32_t> token_id(std::string_view token) const override {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  int vocab_size() const override { return static_cast<int>(spec_.tokens.size()); }
  std::optional<int32_t> bos() const override { return spec_.bos; }
  std::optional<int32_t> eos() const override { return spec_.eos; }
  bool adds_bos() const override { return spec_.adds_bos; }
  bool strips_leading_space() const override { return spec_.decoder.strip_leading_space; }
  bool replaces_each_invalid_byte() const override { return spec_.decoder.byte_fallback; }

 private:
  bool known(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < bytes_.size(); }

  AddedTokenMatcher make_matcher(bool plain, bool normalized) const {
    std::vector<const AddedToken*> tokens;
    std::vector<std::string> spellings;
    for (const AddedToken& token : spec_.added) {
      if (token.normalized != normalized || (plain && token.markup())) continue;
      tokens.push_back(&token);
      spellings.push_back(normalized ? normalise(spec_.normalizer, token.content) : token.content);
    }
    return AddedTokenMatcher(tokens, spellings);
  }

  // Calls rest(text between matches, it starts where `text` does) and appends the matches' ids, in order.
  template <class Rest>
  static void split_added(const AddedTokenMatcher& matcher, std::string_view text, std::vector<int32_t>& ids,
                          const Rest& rest) {
    size_t done = 0;
    if (!matcher.empty()) {
      for (const AddedTokenMatch& match : matcher.find_all(text)) {
        if (match.start > done) rest(text.substr(done, match.start - done), done == 0);
        ids.push_back(match.token->id);
        done = match.end;
      }
    }
    if (done < text.size()) rest(text.substr(done), done == 0);
  }

  TokenizerSpec spec_;
  std::vector<std::string> bytes_;  // by id
  std::vector<bool> special_;       // by id
  std::unordered_map<std::string_view, int32_t> ids_;
  // [plain text: white space only][looked for in normalised text]
  AddedTokenMatcher matchers_[2][2];
};

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerSpec spec) {
  return std::make_shared<SpecTokenizer>(std::move(spec));
}

Result<std::unique_ptr<const SubwordModel>> make_bpe_model(
    const TokenizerSpec& spec, const std::vector<std::pair<std::string, std::string>>& merges,
    const BpeOptions& options) {
  BpeVocabulary vocabulary;
  std::vector<std::string> bytes(options.byte_level ? spec.tokens.size() : 0);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].empty()) continue;
    std::string_view text = spec.tokens[id];
    if (options.byte_level) {
      auto raw = bytes_of_token(text);
      if (!raw) continue;
      text = bytes[id] = std::move(*raw);
    }
    vocabulary.tokens.emplace_back(text, static_cast<int32_t>(id));
  }
  for (const AddedToken& token : spec.added)
    if (token.markup() && !token.single_word) vocabulary.forbidden.push_back(token.id);
  if (!options.byte_level) {
    for (const auto& [left, right] : merges) vocabulary.merges.emplace_back(left, right);
    return make_bpe(vocabulary, options);
  }
  std::vector<std::string> parts;
  parts.reserve(merges.size() * 2);
  for (const auto& [left, right] : merges) {
    for (const std::string_view piece : {std::string_view(left), std::string_view(right)}) {
      auto raw = bytes_of_token(piece);
      parts.push_back(raw ? std::move(*raw) : std::string(piece));
    }
    vocabulary.merges.emplace_back(parts[parts.size() - 2], parts.back());
  }
  return make_bpe(vocabulary, options);
}

}  // namespace drafthorse
