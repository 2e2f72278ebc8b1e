#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "text/score_bpe.h"
#include "text/tokenizer_spec.h"

namespace drafthorse {
namespace {

constexpr int64_t kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // ▁

// What tokenizer.ggml.pre stands for.
struct PreRule {
  std::string_view name;
  SplitRule rule;
  bool nfc = false, digits_apart = false, ignore_merges = false, adds_bos = false;
};
constexpr std::array kPreRules = {
    PreRule{.name = "llama-bpe", .rule = SplitRule::llama3, .ignore_merges = true, .adds_bos = true},
    PreRule{.name = "llama3", .rule = SplitRule::llama3, .ignore_merges = true, .adds_bos = true},
    PreRule{.name = "llama-v3", .rule = SplitRule::llama3, .ignore_merges = true, .adds_bos = true},
    PreRule{.name = "qwen2", .rule = SplitRule::qwen2, .nfc = true},
    PreRule{.name = "deepseek-r1-qwen", .rule = SplitRule::qwen2, .nfc = true},
    PreRule{.name = "qwen35", .rule = SplitRule::qwen35, .nfc = true},
    PreRule{.name = "smollm", .rule = SplitRule::gpt2, .digits_apart = true},
    PreRule{.name = "tekken", .rule = SplitRule::tekken, .ignore_merges = true, .adds_bos = true},
    PreRule{.name = "gpt-2", .rule = SplitRule::gpt2},
    PreRule{.name = "gpt-4o", .rule = SplitRule::gpt4o},
    PreRule{.name = "llama4", .rule = SplitRule::gpt4o},
};

Error unknown_pre(const std::string& pre) {
  std::vector<std::string_view> names;
  for (const PreRule& rule : kPreRules) names.push_back(rule.name);
  return {ErrorKind::unsupported,
          fmt::format(
              "tokenizer.ggml.pre is \"{}\", which this server does not know (it knows {}); use a tokenizer.json or "
              "a GGUF file of a supported model",
              pre, fmt::join(names, ", ")),
          {}};
}

int64_t type_of(const GgufVocabulary& v, size_t id) { return id < v.token_types.size() ? v.token_types[id] : 1; }

Status check(const GgufVocabulary& v) {
  const auto bad = [](std::string message) { return Status(Error{ErrorKind::corrupt, std::move(message), {}}); };
  if (v.tokens.empty()) return bad("tokenizer.ggml.tokens is missing or empty");
  if (v.tokens.size() > kMaxTokenId) return bad(fmt::format("tokenizer.ggml.tokens has {} entries", v.tokens.size()));
  if (!v.token_types.empty() && v.token_types.size() != v.tokens.size()) {
    return bad(fmt::format("tokenizer.ggml.token_type has {} entries and tokenizer.ggml.tokens {}; they must agree",
                           v.token_types.size(), v.tokens.size()));
  }
  for (const auto& [name, id] : {std::pair{"bos", v.bos}, std::pair{"eos", v.eos}, std::pair{"unknown", v.unk}}) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= v.tokens.size()))
      return bad(fmt::format("tokenizer.ggml.{}_token_id is {}, outside the {} tokens", name, *id, v.tokens.size()));
  }
  return {};
}

TokenizerSpec common_spec(const GgufVocabulary& v) {
  TokenizerSpec spec;
  spec.tokens = v.tokens;
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const int64_t type = type_of(v, id);
    // Rows that only pad the matrix are named "[PAD151665]" and mean nothing.
    if (type == kUnused && v.tokens[id].starts_with("[PAD")) spec.tokens[id].clear();
    if (v.tokens[id].empty() || (type != kControl && type != kUserDefined && type != kUnknown)) continue;
    AddedToken token;
    token.id = static_cast<int32_t>(id);
    token.content = v.tokens[id];
    token.special = type != kUserDefined;
    spec.added.push_back(std::move(token));
  }
  spec.bos = v.bos;
  spec.eos = v.eos;
  return spec;
}

// "left right"; the separator is the first space that is not the first character.
Result<std::vector<std::pair<std::string, std::string>>> parse_merges(const GgufVocabulary& v) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string& merge : v.merges) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos) {
      return Error{ErrorKind::corrupt,
                   fmt::format("tokenizer.ggml.merges[{}] is \"{}\"; expected two parts with a space between them",
                               merges.size(), merge),
                   {}};
    }
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return merges;
}

Result<std::shared_ptr<const Tokenizer>> finish_bpe(const GgufVocabulary& v, TokenizerSpec spec,
                                                    const BpeOptions& options) {
  auto merges = parse_merges(v);
  if (!merges) return merges.error();
  auto model = make_bpe_model(spec, *merges, options);
  if (!model) return model.error();
  spec.model = std::move(*model);
  return make_tokenizer(std::move(spec));
}

Result<std::shared_ptr<const Tokenizer>> byte_level(const GgufVocabulary& v) {
  const auto* rule =
      std::find_if(kPreRules.begin(), kPreRules.end(), [&](const PreRule& r) { return r.name == v.pre; });
  if (rule == kPreRules.end()) return unknown_pre(v.pre);
  TokenizerSpec spec = common_spec(v);
  if (rule->nfc) spec.normalizer.emplace_back(NormalForm::nfc);
  if (v.add_space_prefix.value_or(false)) spec.pre_tokenizer.emplace_back(AddPrefixSpace{});
  Split split;
  split.pattern = CharSplit::digit;
  if (rule->digits_apart) spec.pre_tokenizer.emplace_back(split);
  split.pattern = rule->rule;
  spec.pre_tokenizer.emplace_back(split);
  spec.decoder.byte_level = true;
  spec.adds_bos = v.add_bos.value_or(rule->adds_bos);
  BpeOptions options;
  options.byte_level = true;
  options.ignore_merges = rule->ignore_merges;
  return finish_bpe(v, std::move(spec), options);
}

void use_space_marks(TokenizerSpec& spec) {
  spec.normalizer.emplace_back(ReplaceText{" ", std::string(kSpaceMark)});
  spec.decoder.replacements.emplace_back(kSpaceMark, " ");
  spec.decoder.byte_fallback = true;
}

// Gemma 4: ranked merges over characters; a run of newlines that is a token is that token.
Result<std::shared_ptr<const Tokenizer>> gemma4(const GgufVocabulary& v) {
  TokenizerSpec spec = common_spec(v);
  use_space_marks(spec);
  spec.adds_bos = v.add_bos.value_or(true);
  spec.pre_tokenizer.emplace_back(NewlineRuns{});
  BpeOptions options;
  options.byte_fallback = options.fuse_unk = options.whole_newline_runs = true;
  options.unk = v.unk;
  return finish_bpe(v, std::move(spec), options);
}

// SentencePiece: merges by score. Every text between special tokens gets a leading space where the file asks for one.
Result<std::shared_ptr<const Tokenizer>> sentence_piece(const GgufVocabulary& v) {
  if (v.scores.size() != v.tokens.size()) {
    return Error{ErrorKind::corrupt,
                 fmt::format("tokenizer.ggml.scores has {} entries and tokenizer.ggml.tokens {}; they must agree",
                             v.scores.size(), v.tokens.size()),
                 {}};
  }
  TokenizerSpec spec = common_spec(v);
  const bool prefix = v.add_space_prefix.value_or(true);
  if (prefix) spec.normalizer.emplace_back(Prepend{" "});
  use_space_marks(spec);
  spec.decoder.strip_leading_space = prefix;
  // SentencePiece looks for runs of spaces after it has made them ▁, where a ▁ of the text counts as well.
  for (AddedToken& token : spec.added) token.normalized = !prefix && !token.special && !token.markup();
  spec.adds_bos = v.add_bos.value_or(true);
  std::vector<ScoredToken> tokens;
  std::vector<int32_t> bytes(256, -1);
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const int64_t type = type_of(v, id);
    if (!std::isfinite(v.scores[id]))
      return Error{ErrorKind::corrupt, fmt::format("tokenizer.ggml.scores[{}] is not a number", id), {}};
    if (type == kByte) {
      if (const auto byte = parse_byte_token(v.tokens[id])) bytes[*byte] = static_cast<int32_t>(id);
    } else if ((type == 1 || type == kUnused) && !v.tokens[id].empty()) {
      tokens.push_back({v.tokens[id], static_cast<int32_t>(id), v.scores[id], type == kUnused});
    }
  }
  spec.model = make_score_bpe(std::move(tokens), std::move(bytes), v.unk.value_or(-1));
  return make_tokenizer(std::move(spec));
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  if (const Status status = check(vocabulary); !status) return status.error();
  if (vocabulary.model == "gpt2") return byte_level(vocabulary);
  if (vocabulary.model == "llama") return sentence_piece(vocabulary);
  if (vocabulary.model == "gemma4") return gemma4(vocabulary);
  return Error{
      ErrorKind::unsupported,
      fmt::format("tokenizer.ggml.model is \"{}\"; this server knows gpt2, llama and gemma4", vocabulary.model),
      {}};
}

}  // namespace drafthorse
