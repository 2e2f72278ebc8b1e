#include "text/tokenizer_json_parts.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace drafthorse {
namespace {

using boost::json::object;
using boost::json::value;

Error unsupported(std::string_view where, std::string_view what) {
  return {ErrorKind::unsupported, fmt::format("tokenizer.json: {}: {} is not supported", where, what), {}};
}
Error malformed(std::string_view where, std::string_view expected) {
  return {ErrorKind::corrupt, fmt::format("tokenizer.json: {}: expected {}", where, expected), {}};
}

bool absent(const value* entry) { return !entry || entry->is_null(); }

// Calls `each` with every part of an entry in order: the members of a Sequence under `list_key`, or the entry itself.
// The JSON parser bounds the depth.
template <class Each>
Status for_each_part(std::string_view where, const value& entry, std::string_view list_key, const Each& each) {
  if (!entry.is_object()) return malformed(where, "an object");
  const std::string type = json_text(entry.as_object(), "type").value_or("");
  if (type != "Sequence") return each(type, entry.as_object());
  const value* list = entry.as_object().if_contains(list_key);
  if (!list || !list->is_array()) return malformed(where, fmt::format("an array \"{}\"", list_key));
  for (const value& part : list->as_array())
    if (const Status status = for_each_part(where, part, list_key, each); !status) return status;
  return {};
}

struct Pattern {
  std::string text;
  bool is_regex = false;
};
Result<Pattern> pattern_of(std::string_view where, const object& part) {
  const value* pattern = part.if_contains("pattern");
  if (pattern && pattern->is_object()) {
    if (const auto text = json_text(pattern->as_object(), "String"); text && !text->empty())
      return Pattern{*text, false};
    if (const auto text = json_text(pattern->as_object(), "Regex"); text && !text->empty()) return Pattern{*text, true};
  }
  return malformed(where, R"(a pattern {"String": …} or {"Regex": …} that is not empty)");
}

Result<std::shared_ptr<const Regex>> compile(std::string_view where, const std::string& pattern) {
  auto regex = Regex::compile(pattern);
  if (!regex) return regex.error().with_context(fmt::format("tokenizer.json: {}", where));
  return regex;
}

Status add_replace(const object& part, std::vector<NormalizerStep>& steps) {
  auto pattern = pattern_of("normalizer Replace", part);
  if (!pattern) return pattern.error();
  std::string content = json_text(part, "content").value_or("");
  if (!pattern->is_regex) {
    steps.emplace_back(ReplaceText{std::move(pattern->text), std::move(content)});
    return {};
  }
  auto regex = compile("normalizer Replace", pattern->text);
  if (!regex) return regex.error();
  steps.emplace_back(ReplaceRegex{std::move(*regex), std::move(content)});
  return {};
}

Status add_normalizer(const std::string& type, const object& part, std::vector<NormalizerStep>& steps) {
  static constexpr std::pair<std::string_view, NormalForm> kForms[] = {
      {"NFC", NormalForm::nfc}, {"NFD", NormalForm::nfd}, {"NFKC", NormalForm::nfkc}, {"NFKD", NormalForm::nfkd}};
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    steps.emplace_back(form);
    return {};
  }
  if (type == "Replace") return add_replace(part, steps);
  if (type == "Lowercase") {
    steps.emplace_back(Lowercase{});
  } else if (type == "Prepend") {
    steps.emplace_back(Prepend{json_text(part, "prepend").value_or("")});
  } else if (type == "Strip") {
    steps.emplace_back(StripSpace{json_flag(part, "strip_left", true), json_flag(part, "strip_right", true)});
  } else {
    return unsupported("normalizer", fmt::format("type \"{}\"", type));
  }
  return {};
}

Result<SplitBehavior> behavior_of(std::string_view where, const object& part) {
  static constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
      {"Isolated", SplitBehavior::isolated},
      {"Removed", SplitBehavior::removed},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous}};
  const std::string text = json_text(part, "behavior").value_or("");
  for (const auto& [name, behavior] : kBehaviors)
    if (text == name) return behavior;
  return unsupported(where, fmt::format("behavior \"{}\"", text));
}

Status add_split(const object& part, std::vector<PreTokenizerStep>& steps) {
  auto pattern = pattern_of("pre_tokenizer Split", part);
  if (!pattern) return pattern.error();
  auto behavior = behavior_of("pre_tokenizer Split", part);
  if (!behavior) return behavior.error();
  Split split;
  split.behavior = *behavior;
  split.invert = json_flag(part, "invert", false);
  if (!pattern->is_regex) {
    split.pattern = std::move(pattern->text);
  } else if (const auto rule = find_split_rule(pattern->text)) {
    split.pattern = *rule;
  } else {
    auto regex = compile("pre_tokenizer Split", pattern->text);
    if (!regex) return regex.error();
    split.pattern = std::move(*regex);
  }
  steps.emplace_back(std::move(split));
  return {};
}

Result<PrependScheme> prepend_scheme(std::string_view where, const object& part) {
  const auto scheme = json_text(part, "prepend_scheme");
  if (!scheme) return json_flag(part, "add_prefix_space", true) ? PrependScheme::always : PrependScheme::never;
  if (*scheme == "always") return PrependScheme::always;
  if (*scheme == "first") return PrependScheme::first;
  if (*scheme == "never") return PrependScheme::never;
  return unsupported(where, fmt::format("prepend_scheme \"{}\"", *scheme));
}

void add_class_split(CharSplit pattern, SplitBehavior behavior, std::vector<PreTokenizerStep>& steps) {
  Split split;
  split.pattern = pattern;
  split.behavior = behavior;
  steps.emplace_back(std::move(split));
}

Status add_metaspace(const object& part, std::vector<PreTokenizerStep>& steps) {
  auto scheme = prepend_scheme("pre_tokenizer Metaspace", part);
  if (!scheme) return scheme.error();
  Metaspace step{json_text(part, "replacement").value_or("\xE2\x96\x81"), *scheme, json_flag(part, "split", true)};
  if (step.replacement.empty()) return malformed("pre_tokenizer Metaspace", "a replacement that is not empty");
  steps.emplace_back(std::move(step));
  return {};
}

// Whitespace: \w+|[^\w\s]+ , the rest removed.
Status add_words(std::vector<PreTokenizerStep>& steps) {
  auto regex = compile(
      "pre_tokenizer Whitespace",
      R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)");
  if (!regex) return regex.error();
  Split split;
  split.pattern = std::move(*regex);
  split.behavior = SplitBehavior::removed;
  split.invert = true;
  steps.emplace_back(std::move(split));
  return {};
}

Status add_pre_tokenizer(const std::string& type, const object& part, PreTokenizerSpec& spec) {
  if (spec.byte_level) return unsupported("pre_tokenizer", fmt::format("\"{}\" behind ByteLevel", type));
  if (type == "Split") return add_split(part, spec.steps);
  if (type == "Metaspace") return add_metaspace(part, spec.steps);
  if (type == "Whitespace") return add_words(spec.steps);
  if (type == "Digits") {
    const bool apart = json_flag(part, "individual_digits", false);
    add_class_split(apart ? CharSplit::digit : CharSplit::digits, SplitBehavior::isolated, spec.steps);
  } else if (type == "WhitespaceSplit") {
    add_class_split(CharSplit::white_space, SplitBehavior::removed, spec.steps);
  } else if (type == "Punctuation") {
    auto behavior =
        part.contains("behavior") ? behavior_of("pre_tokenizer Punctuation", part) : SplitBehavior::isolated;
    if (!behavior) return behavior.error();
    add_class_split(CharSplit::punctuation, *behavior, spec.steps);
  } else if (type == "ByteLevel") {
    if (json_flag(part, "add_prefix_space", true)) spec.steps.emplace_back(AddPrefixSpace{});
    Split split;
    split.pattern = SplitRule::gpt2;
    if (json_flag(part, "use_regex", true)) spec.steps.emplace_back(std::move(split));
    spec.byte_level = true;
  } else {
    return unsupported("pre_tokenizer", fmt::format("type \"{}\"", type));
  }
  return {};
}

struct DecoderReader {
  DecoderSpec spec;
  bool fused = false;

  Status operator()(const std::string& type, const object& part) {
    if (type == "ByteLevel") {
      spec.byte_level = true;
    } else if (type == "ByteFallback") {
      spec.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Replace") {
      return replace(part);
    } else if (type == "Strip") {
      return strip(part);
    } else if (type == "Metaspace") {
      auto scheme = prepend_scheme("decoder Metaspace", part);
      if (!scheme) return scheme.error();
      spec.replacements.emplace_back(json_text(part, "replacement").value_or("\xE2\x96\x81"), " ");
      if (spec.replacements.back().first.empty()) return malformed("decoder Metaspace", "a replacement");
      spec.strip_leading_space = *scheme != PrependScheme::never;
    } else {
      return unsupported("decoder", fmt::format("type \"{}\"", type));
    }
    return {};
  }

  Status replace(const object& part) {
    auto pattern = pattern_of("decoder Replace", part);
    if (!pattern) return pattern.error();
    if (pattern->is_regex) return unsupported("decoder Replace", "a regex");
    if (fused) return unsupported("decoder Replace", "its place behind Fuse");
    spec.replacements.emplace_back(std::move(pattern->text), json_text(part, "content").value_or(""));
    return {};
  }

  // Only one space at the start of the whole text, which streaming can do as well.
  Status strip(const object& part) {
    const auto number = [&](const char* key) {
      const value* n = part.if_contains(key);
      return n && n->is_int64() ? n->as_int64() : 0;
    };
    if (!fused || json_text(part, "content") != " " || number("start") > 1 || number("stop") != 0)
      return unsupported("decoder Strip", "anything but one leading space of the fused text");
    spec.strip_leading_space = number("start") == 1;
    return {};
  }
};

// The special token before the text in a template's "single"; empty: none.
Result<std::string> template_prefix(const object& part) {
  const value* single = part.if_contains("single");
  if (!single || !single->is_array()) return malformed("post_processor TemplateProcessing", "an array \"single\"");
  std::string prefix;
  for (const value& item : single->as_array()) {
    if (!item.is_object()) return malformed("post_processor TemplateProcessing", "objects in \"single\"");
    if (item.as_object().contains("Sequence")) break;
    const value* token = item.as_object().if_contains("SpecialToken");
    if (!token || !token->is_object())
      return malformed("post_processor TemplateProcessing", "SpecialToken or Sequence");
    if (!prefix.empty()) return unsupported("post_processor TemplateProcessing", "more than one token before the text");
    prefix = json_text(token->as_object(), "id").value_or("");
  }
  return prefix;
}

}  // namespace

std::optional<std::string> json_text(const object& entry, std::string_view key) {
  const value* member = entry.if_contains(key);
  if (!member || !member->is_string()) return std::nullopt;
  return std::string(member->as_string());
}

bool json_flag(const object& entry, std::string_view key, bool otherwise) {
  const value* member = entry.if_contains(key);
  return member && member->is_bool() ? member->as_bool() : otherwise;
}

std::optional<int64_t> json_whole_number(std::string_view digits) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

Result<std::vector<NormalizerStep>> json_normalizer(const value* entry) {
  std::vector<NormalizerStep> steps;
  if (absent(entry)) return steps;
  const Status status =
      for_each_part("normalizer", *entry, "normalizers",
                    [&](const std::string& type, const object& part) { return add_normalizer(type, part, steps); });
  if (!status) return status.error();
  return steps;
}

Result<PreTokenizerSpec> json_pre_tokenizer(const value* entry) {
  PreTokenizerSpec spec;
  if (absent(entry)) return spec;
  const Status status =
      for_each_part("pre_tokenizer", *entry, "pretokenizers",
                    [&](const std::string& type, const object& part) { return add_pre_tokenizer(type, part, spec); });
  if (!status) return status.error();
  return spec;
}

Result<DecoderSpec> json_decoder(const value* entry) {
  if (absent(entry)) {
    return Error{
        ErrorKind::unsupported, "tokenizer.json: decoder is missing, so tokens cannot be turned into text", {}};
  }
  DecoderReader reader;
  const Status status = for_each_part("decoder", *entry, "decoders", std::ref(reader));
  if (!status) return status.error();
  if (reader.spec.byte_level && (reader.spec.byte_fallback || !reader.spec.replacements.empty()))
    return unsupported("decoder", "ByteLevel together with other decoders");
  return reader.spec;
}

Result<std::string> json_prefix_token(const value* entry) {
  std::string prefix;
  if (absent(entry)) return prefix;
  const Status status =
      for_each_part("post_processor", *entry, "processors", [&](const std::string& type, const object& part) -> Status {
        if (type == "ByteLevel") return {};
        if (type != "TemplateProcessing") return unsupported("post_processor", fmt::format("type \"{}\"", type));
        auto found = template_prefix(part);
        if (!found) return found.error();
        prefix = std::move(*found);
        return {};
      });
  if (!status) return status.error();
  return prefix;
}

}  // namespace drafthorse
