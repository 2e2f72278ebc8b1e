#include "text/split_rule.h"

#include <array>
#include <cstdint>
#include <utility>

#include "text/unicode.h"

namespace drafthorse {
namespace {

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<std::pair<SplitRule, std::string_view>, 6> kRules = {{{SplitRule::qwen2, kQwen2},
                                                                           {SplitRule::qwen35, kQwen35},
                                                                           {SplitRule::llama3, kLlama3},
                                                                           {SplitRule::gpt2, kGpt2},
                                                                           {SplitRule::tekken, kTekken},
                                                                           {SplitRule::gpt4o, kGpt4o}}};

struct Char {
  char32_t code_point = 0;
  uint32_t length = 0;  // 0: past the end
  uint8_t bits = 0;

  bool is(uint8_t classes) const { return (bits & classes) != 0; }
  bool newline() const { return length != 0 && (code_point == '\r' || code_point == '\n'); }
};

struct Text {
  std::string_view text;
  const uint8_t* classes;

  Char at(size_t position) const {
    if (position >= text.size()) return {};
    Char c;
    c.code_point = decode_valid_utf8(text.data() + position, &c.length);
    c.bits = classes[c.code_point];
    return c;
  }
  // The end of the run of characters of `wanted` classes that starts at `position`.
  size_t run(size_t position, uint8_t wanted) const {
    for (Char c = at(position); c.length != 0 && c.is(wanted); c = at(position)) position += c.length;
    return position;
  }
  // The same for characters that have none of the `unwanted` classes.
  size_t run_without(size_t position, uint8_t unwanted) const {
    for (Char c = at(position); c.length != 0 && !c.is(unwanted); c = at(position)) position += c.length;
    return position;
  }
};

// 's 't 're 've 'm 'll 'd at `at`; folding also lets U+017F stand for s. Returns its end, or `at` when there is none.
size_t contraction(const Text& t, size_t at, bool fold) {
  if (t.at(at).code_point != '\'') return at;
  const auto letter = [&](size_t position, Char* c) -> char32_t {
    *c = t.at(position);
    if (!fold) return c->code_point;
    if (c->code_point == 0x17F) return 's';
    return c->code_point >= 'A' && c->code_point <= 'Z' ? c->code_point + 32 : c->code_point;
  };
  Char c1, c2;
  const char32_t first = letter(at + 1, &c1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 1 + c1.length;
  const char32_t second = letter(at + 1 + c1.length, &c2);
  const bool two = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return two ? at + 1 + c1.length + c2.length : at;
}

// \s+(?!\S)|\s+ : a run leaves its last character to the word behind it, unless it has only one.
size_t white_space(const Text& t, size_t at) {
  size_t end = at, last = at;
  for (Char c = t.at(end); c.length != 0 && c.is(kSpace); c = t.at(end)) last = end, end += c.length;
  return end == t.text.size() || last == at ? end : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : a run with a newline ends at its last one.
size_t white_space_or_lines(const Text& t, size_t at) {
  size_t end = at, lines = at;
  for (Char c = t.at(end); c.length != 0 && c.is(kSpace); c = t.at(end)) {
    end += c.length;
    if (c.newline()) lines = end;
  }
  return lines != at ? lines : white_space(t, at);
}

size_t digits(const Text& t, size_t at, int most) {
  for (Char c = t.at(at); most > 0 && c.is(kNumber); c = t.at(at), --most) at += c.length;
  return at;
}

// ' ?[^\s\p{L}\p{N}…]+[\r\n/]*' at `at`; returns `at` when it does not match. `not_symbol`: the classes shut out.
size_t symbols(const Text& t, size_t at, uint8_t not_symbol, bool lines, bool slash) {
  const size_t start = at + (t.at(at).code_point == ' ' ? 1 : 0);
  size_t end = t.run_without(start, not_symbol);
  if (end == start) return at;
  if (!lines) return end;
  for (Char c = t.at(end); c.newline() || (slash && c.code_point == '/'); c = t.at(end)) end += c.length;
  return end;
}

size_t match_gpt2(const Text& t, size_t at) {
  if (const size_t end = contraction(t, at, false); end != at) return end;
  const size_t start = at + (t.at(at).code_point == ' ' ? 1 : 0);
  const Char c = t.at(start);
  if (c.is(kLetter)) return t.run(start, kLetter);
  if (c.is(kNumber)) return t.run(start, kNumber);
  if (const size_t end = symbols(t, at, kSpace | kLetter | kNumber, false, false); end != at) return end;
  return white_space(t, at);
}

// qwen2, qwen35 and llama3, which differ in what a word is made of and in how many digits stay together.
size_t match_words(const Text& t, size_t at, uint8_t word, int most_digits) {
  if (const size_t end = contraction(t, at, true); end != at) return end;
  const Char c = t.at(at);
  if (c.is(word)) return t.run(at, word);
  if (c.is(kNumber)) return digits(t, at, most_digits);
  if (!c.newline() && t.at(at + c.length).is(word)) return t.run(at + c.length, word);
  if (const size_t end = symbols(t, at, kSpace | kNumber | word, true, false); end != at) return end;
  return white_space_or_lines(t, at);
}

constexpr uint8_t kUpperSide = kUpper | kCaseless | kMark;  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
constexpr uint8_t kLowerSide = kLower | kCaseless | kMark;  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]

// U*l+ : the greedy U* gives back characters until one of them can be the l.
size_t upper_then_lower(const Text& t, size_t at) {
  size_t end = at, after_shared = at;
  for (Char c = t.at(end); c.is(kUpperSide); c = t.at(end)) {
    end += c.length;
    if (c.is(kLowerSide)) after_shared = end;
  }
  const size_t lower = t.run(end, kLowerSide);
  return lower != end ? lower : after_shared;
}

// U+l*
size_t upper_run(const Text& t, size_t at) {
  const size_t end = t.run(at, kUpperSide);
  return end == at ? at : t.run(end, kLowerSide);
}

// One of the two word alternatives with its optional leading character; returns `at` when neither matches.
size_t cased_word(const Text& t, size_t at, size_t (*body)(const Text&, size_t)) {
  const Char c = t.at(at);
  if (!c.newline() && !c.is(kLetter | kNumber)) {
    const size_t start = at + c.length;
    if (const size_t end = body(t, start); end != start) return end;
  }
  return body(t, at);
}

size_t match_cased(const Text& t, size_t at, bool contractions, int most_digits) {
  size_t end = cased_word(t, at, upper_then_lower);
  if (end == at) end = cased_word(t, at, upper_run);
  if (end != at) return contractions ? contraction(t, end, true) : end;
  if (t.at(at).is(kNumber)) return digits(t, at, most_digits);
  end = symbols(t, at, kSpace | kLetter | kNumber, true, true);
  return end != at ? end : white_space_or_lines(t, at);
}

}  // namespace

std::string_view split_rule_regex(SplitRule rule) {
  for (const auto& [known, regex] : kRules)
    if (known == rule) return regex;
  return {};
}

std::optional<SplitRule> find_split_rule(std::string_view regex) {
  for (const auto& [rule, known] : kRules)
    if (known == regex) return rule;
  return std::nullopt;
}

size_t match_split_rule(SplitRule rule, std::string_view text, size_t at) {
  const Text t{text, char_class_table()};
  switch (rule) {
    case SplitRule::qwen2: return match_words(t, at, kLetter, 1) - at;
    case SplitRule::qwen35: return match_words(t, at, kLetter | kMark, 1) - at;
    case SplitRule::llama3: return match_words(t, at, kLetter, 3) - at;
    case SplitRule::gpt2: return match_gpt2(t, at) - at;
    case SplitRule::tekken: return match_cased(t, at, false, 1) - at;
    case SplitRule::gpt4o: return match_cased(t, at, true, 3) - at;
  }
  return 0;
}

}  // namespace drafthorse
