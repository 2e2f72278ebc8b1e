#include "text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

namespace drafthorse {
namespace {

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Symbols with the property Alphabetic (circled and squared Latin letters), and the two joiners.
bool is_word_symbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
}

uint8_t category_bits(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return kUpper | kWord;
    case UTF8PROC_CATEGORY_LL: return kLower | kWord;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return kCaseless | kWord;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return kMark | kWord;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL: return kNumber | kWord;
    case UTF8PROC_CATEGORY_NO: return kNumber;
    case UTF8PROC_CATEGORY_PC: return kPunctuation | kWord;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return kPunctuation;
    default: return 0;
  }
}

std::vector<uint8_t> build_table() {
  std::vector<uint8_t> table(0x110000);
  for (char32_t c = 0; c < table.size(); ++c) {
    uint8_t bits = category_bits(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    if (is_white_space(c)) bits |= kSpace;
    if (is_word_symbol(c)) bits |= kWord;
    if (c < 0x80 && std::string_view("$+<=>^`|~").find(static_cast<char>(c)) != std::string_view::npos)
      bits |= kPunctuation;
    table[c] = bits;
  }
  return table;
}

// The smallest and largest second byte that may follow `lead`, and how many bytes the character has; length 0: no lead.
struct LeadRule {
  uint32_t length;
  uint8_t low, high;
};
LeadRule lead_rule(uint8_t lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Bytes of the longest prefix of text[at..] that starts a valid character; `*whole` says whether it is one.
uint32_t valid_part(std::string_view text, size_t at, bool* whole) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  *whole = byte(at) < 0x80;
  if (*whole) return 1;
  const LeadRule rule = lead_rule(byte(at));
  if (rule.length == 0) return 0;
  if (at + 1 >= text.size() || byte(at + 1) < rule.low || byte(at + 1) > rule.high) return 1;
  uint32_t n = 2;
  while (n < rule.length && at + n < text.size() && (byte(at + n) & 0xC0) == 0x80) ++n;
  *whole = n == rule.length;
  return n;
}

}  // namespace

const uint8_t* char_class_table() {
  static const std::vector<uint8_t> table = build_table();
  return table.data();
}

DecodedChar decode_utf8(std::string_view text, size_t at) {
  bool whole = false;
  const uint32_t n = valid_part(text, at, &whole);
  if (!whole) return {0xFFFD, n == 0 ? 1 : n, false};
  uint32_t length = 0;
  const char32_t code_point = decode_valid_utf8(text.data() + at, &length);
  return {code_point, length, true};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const DecodedChar c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text, bool per_byte) {
  std::string out;
  out.reserve(text.size());
  size_t copied = 0;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const DecodedChar c = decode_utf8(text, at);
    if (!c.valid) {
      out.append(text.substr(copied, at - copied));
      for (uint32_t i = 0; i < (per_byte ? c.length : 1); ++i) out.append("\xEF\xBF\xBD");
      copied = at + c.length;
    }
    at += c.length;
  }
  return out.append(text.substr(copied));
}

size_t incomplete_utf8_tail(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const size_t at = text.size() - back;
    if ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) continue;
    bool whole = false;
    return valid_part(text, at, &whole) == back && !whole ? back : 0;
  }
  return 0;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

bool is_surely_nfc(std::string_view text) {
  // 0xCC leads U+0300, the first code point that normalisation to NFC can touch.
  for (const char c : text)
    if (static_cast<uint8_t>(c) >= 0xCC) return false;
  return true;
}

std::string normalise(std::string_view text, NormalForm form) {
  if (form == NormalForm::nfc && is_surely_nfc(text)) return std::string(text);
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (n < 0) throw std::runtime_error(std::string("utf8proc_map: ") + utf8proc_errmsg(n));
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(n));
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text, at);
    if (c.code_point == 0x130) {
      out.append("i\xCC\x87");  // the one character whose lower case is two
    } else {
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code_point))));
    }
    at += c.length;
  }
  return out;
}

}  // namespace drafthorse
