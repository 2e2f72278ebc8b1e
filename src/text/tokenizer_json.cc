#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "text/tokenizer_json_parts.h"
#include "text/tokenizer_spec.h"

namespace drafthorse {
namespace {

using boost::json::object;
using boost::json::value;

Error corrupt(std::string message) { return {ErrorKind::corrupt, std::move(message), {}}; }

Result<value> parse_file(std::string_view name, std::string_view text, boost::json::storage_ptr storage) {
  boost::system::error_code code;
  value parsed = boost::json::parse(text, code, std::move(storage));
  if (code) return corrupt(fmt::format("{} is not valid JSON: {}", name, code.message()));
  if (!parsed.is_object()) return corrupt(fmt::format("{} does not hold a JSON object", name));
  return parsed;
}

// Puts `text` at `id`; an id has one string and lies within the bounds that keep a small file from asking for much
// memory.
Status place_token(TokenizerSpec& spec, std::string_view text, const value& id, size_t tokens) {
  const auto limit = std::min<int64_t>(kMaxTokenId, static_cast<int64_t>(tokens) * 16 + 65536);
  if (!id.is_int64() || id.as_int64() < 0 || id.as_int64() > limit) {
    return corrupt(fmt::format("tokenizer.json: the id of token \"{}\" is {}; expected a whole number from 0 to {}",
                               text, boost::json::serialize(id), limit));
  }
  const auto at = static_cast<size_t>(id.as_int64());
  if (spec.tokens.size() <= at) spec.tokens.resize(at + 1);
  if (!spec.tokens[at].empty() && spec.tokens[at] != text) {
    return corrupt(fmt::format("tokenizer.json: id {} stands for both \"{}\" and \"{}\"", at, spec.tokens[at], text));
  }
  spec.tokens[at] = text;
  return {};
}

Status read_vocabulary(const object& model, TokenizerSpec& spec, size_t* tokens) {
  const value* vocabulary = model.if_contains("vocab");
  if (!vocabulary || !vocabulary->is_object())
    return corrupt("tokenizer.json: model.vocab is missing; expected an object from token to id");
  *tokens = vocabulary->as_object().size();
  for (const auto& [text, id] : vocabulary->as_object())
    if (const Status status = place_token(spec, text, id, *tokens); !status) return status;
  return {};
}

Status add_token(TokenizerSpec& spec, const object& entry, const value& id, size_t tokens) {
  AddedToken token;
  token.content = json_text(entry, "content").value_or("");
  if (token.content.empty()) return {};
  if (const Status status = place_token(spec, token.content, id, tokens); !status) return status;
  token.id = static_cast<int32_t>(id.as_int64());
  token.special = json_flag(entry, "special", false);
  token.normalized = json_flag(entry, "normalized", !token.special);
  token.single_word = json_flag(entry, "single_word", false);
  token.lstrip = json_flag(entry, "lstrip", false);
  token.rstrip = json_flag(entry, "rstrip", false);
  for (AddedToken& known : spec.added) {
    if (known.id != token.id) continue;
    return {};  // tokenizer.json comes first and counts
  }
  spec.added.push_back(std::move(token));
  return {};
}

Status read_added(const object& file, const object& config, TokenizerSpec& spec, size_t tokens) {
  if (const value* list = file.if_contains("added_tokens"); list && list->is_array()) {
    tokens += list->as_array().size();
    for (const value& entry : list->as_array()) {
      if (!entry.is_object() || !entry.as_object().contains("id"))
        return corrupt("tokenizer.json: an entry of added_tokens has no id");
      if (const Status status = add_token(spec, entry.as_object(), entry.at("id"), tokens); !status) return status;
    }
  }
  const value* extra = config.if_contains("added_tokens_decoder");
  if (!extra || !extra->is_object()) return {};
  tokens += extra->as_object().size();
  for (const auto& [key, entry] : extra->as_object()) {
    const std::optional<int64_t> id = json_whole_number(key);
    if (!id || !entry.is_object())
      return corrupt(fmt::format("tokenizer_config.json: added_tokens_decoder has the key \"{}\"; expected an id",
                                 std::string_view(key)));
    if (const Status status = add_token(spec, entry.as_object(), value(*id), tokens); !status) return status;
  }
  return {};
}

Result<std::vector<std::pair<std::string, std::string>>> read_merges(const object& model) {
  std::vector<std::pair<std::string, std::string>> merges;
  const value* list = model.if_contains("merges");
  if (!list || !list->is_array()) return corrupt("tokenizer.json: model.merges is missing; expected an array");
  merges.reserve(list->as_array().size());
  for (const value& entry : list->as_array()) {
    if (entry.is_array() && entry.as_array().size() == 2 && entry.at(0).is_string() && entry.at(1).is_string()) {
      merges.emplace_back(entry.at(0).as_string(), entry.at(1).as_string());
      continue;
    }
    const std::string_view text = entry.is_string() ? std::string_view(entry.as_string()) : std::string_view();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return corrupt(
          fmt::format("tokenizer.json: model.merges[{}] is {}; expected [\"left\", \"right\"] or \"left right\"",
                      merges.size(), boost::json::serialize(entry)));
    }
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

// What a BPE of the Hugging Face format may ask for and we do not do.
Status check_model(const object& model) {
  const std::string type = json_text(model, "type").value_or(model.contains("merges") ? "BPE" : "");
  const auto unsupported = [](std::string what) {
    return Error{ErrorKind::unsupported, fmt::format("tokenizer.json: {} is not supported", what), {}};
  };
  if (type != "BPE") return unsupported(fmt::format("model type \"{}\" (only BPE is)", type));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!json_text(model, key).value_or("").empty()) return unsupported(fmt::format("model.{}", key));
  const value* dropout = model.if_contains("dropout");
  if (dropout && dropout->is_number() && dropout->to_number<double>() != 0) return unsupported("model.dropout");
  return {};
}

std::optional<int32_t> find_token(const TokenizerSpec& spec, std::string_view text) {
  for (const AddedToken& token : spec.added)
    if (token.content == text) return token.id;
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  return found == spec.tokens.end() || text.empty() ? std::nullopt
                                                    : std::optional(static_cast<int32_t>(found - spec.tokens.begin()));
}

Status read_model(const object& model, bool byte_level, TokenizerSpec& spec) {
  auto merges = read_merges(model);
  if (!merges) return merges.error();
  BpeOptions options;
  options.byte_level = byte_level;
  options.byte_fallback = json_flag(model, "byte_fallback", false);
  options.fuse_unk = json_flag(model, "fuse_unk", false);
  options.ignore_merges = json_flag(model, "ignore_merges", false);
  if (const auto unk = json_text(model, "unk_token")) {
    options.unk = find_token(spec, *unk);
    if (!options.unk)
      return corrupt(fmt::format("tokenizer.json: model.unk_token \"{}\" is not in the vocabulary", *unk));
  }
  auto built = make_bpe_model(spec, *merges, options);
  if (!built) return built.error();
  spec.model = std::move(*built);
  return {};
}

// tokenizer_config.json spells a token as a string or as an object with "content".
Result<std::optional<int32_t>> named_token(const object& config, const char* key, const TokenizerSpec& spec) {
  std::optional<std::string> text = json_text(config, key);
  const value* entry = config.if_contains(key);
  if (entry && entry->is_object()) text = json_text(entry->as_object(), "content");
  if (!text || text->empty()) return std::optional<int32_t>();
  const auto id = find_token(spec, *text);
  if (!id) return corrupt(fmt::format("tokenizer_config.json: {} \"{}\" is not in the vocabulary", key, *text));
  return id;
}

Status read_bos_eos(const object& file, const object& config, TokenizerSpec& spec) {
  auto prefix = json_prefix_token(file.if_contains("post_processor"));
  if (!prefix) return prefix.error();
  auto bos = named_token(config, "bos_token", spec), eos = named_token(config, "eos_token", spec);
  if (!bos) return bos.error();
  if (!eos) return eos.error();
  spec.bos = *bos;
  spec.eos = *eos;
  if (!prefix->empty()) {
    const auto id = find_token(spec, *prefix);
    if (!id) return corrupt(fmt::format("tokenizer.json: post_processor adds \"{}\", not in the vocabulary", *prefix));
    spec.bos = id;
  }
  spec.adds_bos = json_flag(config, "add_bos_token", !prefix->empty()) && spec.bos;
  return {};
}

Status read_text_rules(const object& file, TokenizerSpec& spec, bool* byte_level) {
  auto normalizer = json_normalizer(file.if_contains("normalizer"));
  if (!normalizer) return normalizer.error();
  auto pre_tokenizer = json_pre_tokenizer(file.if_contains("pre_tokenizer"));
  if (!pre_tokenizer) return pre_tokenizer.error();
  auto decoder = json_decoder(file.if_contains("decoder"));
  if (!decoder) return decoder.error();
  spec.normalizer = std::move(*normalizer);
  spec.pre_tokenizer = std::move(pre_tokenizer->steps);
  spec.decoder = std::move(*decoder);
  *byte_level = pre_tokenizer->byte_level;
  if (*byte_level != spec.decoder.byte_level) {
    return Error{ErrorKind::unsupported,
                 "tokenizer.json: ByteLevel must be both the last pre_tokenizer and the decoder, or neither",
                 {}};
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                              std::string_view tokenizer_config_json) {
  boost::json::monotonic_resource memory;
  auto file = parse_file("tokenizer.json", tokenizer_json, &memory);
  if (!file) return file.error();
  auto config =
      parse_file("tokenizer_config.json", tokenizer_config_json.empty() ? "{}" : tokenizer_config_json, &memory);
  if (!config) return config.error();
  const object& root = file->as_object();
  const value* model = root.if_contains("model");
  if (!model || !model->is_object()) return corrupt("tokenizer.json: model is missing; expected an object");

  TokenizerSpec spec;
  bool byte_level = false;
  size_t tokens = 0;
  if (const Status status = check_model(model->as_object()); !status) return status.error();
  if (const Status status = read_text_rules(root, spec, &byte_level); !status) return status.error();
  if (const Status status = read_vocabulary(model->as_object(), spec, &tokens); !status) return status.error();
  if (const Status status = read_added(root, config->as_object(), spec, tokens); !status) return status.error();
  if (const Status status = read_model(model->as_object(), byte_level, spec); !status) return status.error();
  if (const Status status = read_bos_eos(root, config->as_object(), spec); !status) return status.error();
  return make_tokenizer(std::move(spec));
}

}  // namespace drafthorse
