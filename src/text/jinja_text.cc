#include "text/jinja_text.h"

#include <string.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <utf8proc.h>

namespace drafthorse::jinja {

bool valid_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t n = utf8proc_iterate(p, left, &c);
    if (n <= 0) return false;
    p += n;
    left -= n;
  }
  return true;
}

char32_t decode(std::string_view text, size_t& position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  if (lead < 0x80) {
    ++position;
    return lead;
  }
  const size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  const size_t n = std::min(wanted, text.size() - position);
  char32_t c = lead & (0x7F >> wanted);
  for (size_t i = 1; i < n; ++i) c = c << 6 | (static_cast<unsigned char>(text[position + i]) & 0x3F);
  position += n;
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

int64_t count_code_points(std::string_view text) {
  int64_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

size_t byte_offset(std::string_view text, int64_t code_point) {
  size_t at = 0;
  while (at < text.size() && code_point > 0) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    --code_point;
  }
  return at;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
char32_t simple_upper(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }
char32_t simple_lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
char32_t simple_title(char32_t c) { return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))); }

// The full case folding of one code point; the number of code points written to folded.
int full_fold(char32_t c, char32_t (&folded)[4]) {
  utf8proc_int32_t buffer[8];
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer, 8, UTF8PROC_CASEFOLD, &boundary);
  if (n < 1 || n > 4) {
    folded[0] = c;
    return 1;
  }
  for (int i = 0; i < n; ++i) folded[i] = static_cast<char32_t>(buffer[i]);
  return static_cast<int>(n);
}

bool case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
  }
}

// A capital sigma after a cased letter and not before one is a final sigma (Unicode, SpecialCasing: Final_Sigma).
bool final_sigma(std::string_view text, size_t begin, size_t end) {
  bool before = false;
  while (begin > 0) {
    --begin;
    while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t at = begin;
    const char32_t c = decode(text, at);
    if (case_ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  while (before && end < text.size()) {
    const char32_t c = decode(text, end);
    if (case_ignorable(c)) continue;
    return !is_cased(c);
  }
  return before;
}

void append_lower(std::string& out, std::string_view text, size_t begin, size_t end, char32_t c) {
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else if (c == 0x3A3) {
    append_utf8(out, final_sigma(text, begin, end) ? 0x3C2 : 0x3C3);
  } else {
    append_utf8(out, simple_lower(c));
  }
}

}  // namespace

bool is_cased(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

bool is_word(char32_t c) {
  const auto k = category(c);
  return c == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) || k == UTF8PROC_CATEGORY_ND ||
         k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  if (c < 0x7F) return c > 32;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

bool is_identifier_start(char32_t c) {
  if (c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  if (c < 0x80) return false;
  const auto k = category(c);
  return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) || k == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(char32_t c) {
  if (is_identifier_start(c) || (c >= '0' && c <= '9')) return true;
  if (c < 0x80) return false;
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ND ||
         k == UTF8PROC_CATEGORY_PC;
}

// Full mappings are derived from full case folding, which agrees with SpecialCasing for every code point whose
// upper case is longer than one code point.
void append_upper(std::string& out, char32_t c) {
  char32_t folded[4];
  const int n = c < 0x80 || category(c) == UTF8PROC_CATEGORY_LU ? 1 : full_fold(c, folded);
  if (n == 1) return append_utf8(out, simple_upper(c));
  for (int i = 0; i < n; ++i) append_utf8(out, simple_upper(folded[i]));
}

void append_title(std::string& out, char32_t c) {
  char32_t folded[4];
  const char32_t simple = simple_title(c);
  const int n = simple != c || category(c) != UTF8PROC_CATEGORY_LL ? 1 : full_fold(c, folded);
  if (n == 1) return append_utf8(out, simple);
  append_utf8(out, simple_upper(folded[0]));
  for (int i = 1; i < n; ++i) append_utf8(out, folded[i] == 0x3B9 ? 0x345 : folded[i]);
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_upper(out, decode(text, at));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = decode(text, at);
    append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = decode(text, at);
    inside ? append_lower(out, text, begin, at, c) : append_title(out, c);
    inside = is_cased(c);
  }
  return out;
}

std::string to_capitalised(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = decode(text, at);
    begin == 0 ? append_title(out, c) : append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = decode(text, at);
    const auto k = category(c);
    if (k == UTF8PROC_CATEGORY_LU) append_lower(out, text, begin, at, c);
    else if (k == UTF8PROC_CATEGORY_LL) append_upper(out, c);
    else append_utf8(out, c);
  }
  return out;
}

std::string fold_case(std::string_view text) {
  std::string out;
  char32_t folded[4];
  for (size_t at = 0; at < text.size();) {
    const int n = full_fold(decode(text, at), folded);
    for (int i = 0; i < n; ++i) append_utf8(out, folded[i]);
  }
  return out;
}

std::string_view strip(std::string_view text, std::optional<std::string_view> characters, bool left, bool right) {
  const auto dropped = [&](char32_t c, std::string_view bytes) {
    return characters ? characters->find(bytes) != std::string_view::npos : is_space(c);
  };
  while (left && !text.empty()) {
    size_t at = 0;
    const char32_t c = decode(text, at);
    if (!dropped(c, text.substr(0, at))) break;
    text.remove_prefix(at);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t at = begin;
    const char32_t c = decode(text, at);
    if (!dropped(c, text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

size_t find_text(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  if (from == text.size()) return std::string_view::npos;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

std::string quoted(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  char buffer[16];
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = decode(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') (out += '\\') += static_cast<char>(c);
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (is_printable(c)) out += text.substr(begin, at - begin);
    else {
      const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      snprintf(buffer, sizeof buffer, format, static_cast<unsigned>(c));
      out += buffer;
    }
  }
  return out += quote;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (shortest[0] == '-') {
    out = "-";
    shortest.remove_prefix(1);
  }
  const size_t e = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(e + 1)).c_str());
  std::string digits(1, shortest[0]);
  if (e > 2) digits += shortest.substr(2, e - 2);
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) (out += '.') += digits.substr(1);
    snprintf(buffer, sizeof buffer, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return out += buffer;
  }
  if (exponent < 0) return out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out += digits + std::string(whole - digits.size(), '0') + ".0";
  return out += digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string int_text(__int128 value) {
  auto rest = static_cast<unsigned __int128>(value);
  if (value < 0) rest = -rest;
  std::string out;
  do {
    out += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest);
  if (value < 0) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

namespace {

// The ASCII digit of a decimal digit in any script, or the code point itself (Python's int() and float() take both).
char ascii_digit(char32_t c) {
  if (c < 0x80) return static_cast<char>(c);
  if (category(c) != UTF8PROC_CATEGORY_ND) return '?';
  char32_t zero = c;  // the digits of a script are ten code points in a row
  while (c - zero < 9 && category(zero - 1) == UTF8PROC_CATEGORY_ND) --zero;
  return static_cast<char>('0' + (c - zero));
}

std::string ascii_number(std::string_view text) {
  std::string out;
  text = strip(text, {}, true, true);
  for (size_t at = 0; at < text.size();) out += ascii_digit(decode(text, at));
  return out;
}

}  // namespace

std::optional<__int128> parse_int(std::string_view text, int base) {
  const std::string number = ascii_number(text);
  std::string_view rest = number;
  const bool negative = !rest.empty() && rest[0] == '-';
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
  bool underscore_allowed = false;
  if (rest.size() > 1 && rest[0] == '0') {
    const char mark = static_cast<char>(rest[1] | 0x20);
    const int named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (named && (base == 0 || base == named)) {
      base = named;
      rest.remove_prefix(2);
      underscore_allowed = true;
    } else if (base == 0 && rest.find_first_not_of("0_") != rest.npos) {
      return std::nullopt;
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || rest.empty()) return std::nullopt;
  __int128 value = 0;
  for (const char c : rest) {
    if (c == '_') {
      if (!underscore_allowed) return std::nullopt;
      underscore_allowed = false;
      continue;
    }
    const int digit = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                               : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, static_cast<__int128>(base), &value)) return std::nullopt;
    if (__builtin_add_overflow(value, static_cast<__int128>(digit), &value)) return std::nullopt;
    underscore_allowed = true;
  }
  if (!underscore_allowed) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  std::string number = ascii_number(text), plain;
  for (size_t i = 0; i < number.size(); ++i) {
    if (number[i] != '_') plain += number[i];
    else if (i == 0 || i + 1 == number.size() || !isdigit(number[i - 1]) || !isdigit(number[i + 1]))
      return std::nullopt;
  }
  std::string_view rest = plain;
  const bool negative = !rest.empty() && rest[0] == '-';
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
  std::string word = to_lower(rest);
  double value = 0;
  if (word == "inf" || word == "infinity") value = HUGE_VAL;
  else if (word == "nan") value = std::nan("");
  else {
    if (rest.empty() || !(isdigit(rest[0]) || (rest[0] == '.' && rest.size() > 1 && isdigit(rest[1]))))
      return std::nullopt;
    if (rest.find_first_not_of("0123456789.eE+-") != rest.npos) return std::nullopt;
    char* end = nullptr;
    word = rest;
    value = std::strtod(word.c_str(), &end);
    if (*end) return std::nullopt;
  }
  return negative ? -value : value;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '\'') out += "&#39;";
    else if (c == '"') out += "&#34;";
    else out += c;
  }
  return out;
}

}  // namespace drafthorse::jinja
