#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

#include "text/jinja_text.h"
#include "text/jinja_value.h"

namespace drafthorse::jinja {
namespace {

constexpr size_t npos = std::string_view::npos;

// Every kind of line end becomes "\n"; one at the very end is dropped.
std::string normalise_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string source, int& line) : source_(std::move(source)), line_(line) {}

  std::vector<Token> run() {
    line_ = 1;
    while (position_ < source_.size()) text_and_tag();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(position_); }
  bool starts(std::string_view prefix) const { return rest().substr(0, prefix.size()) == prefix; }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void advance_to(size_t end) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<long>(position_), source_.begin() + static_cast<long>(end), '\n'));
    position_ = end;
  }

  void skip_space(size_t& at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!is_space(decode(source_, next))) return;
      at = next;
    }
  }

  // The text up to the next opening delimiter, without what the delimiter strips from its end.
  std::string_view before_tag(std::string_view text, char sign, bool strips_line) const {
    if (sign == '-') return strip(text, {}, false, true);
    if (sign == '+' || !strips_line) return text;
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == npos ? 0 : newline + 1;
    if (newline == npos && !line_starting_) return text;
    return strip(text.substr(line_begin), {}, true, false).empty() ? text.substr(0, line_begin) : text;
  }

  size_t next_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != npos; at = source_.find('{', at + 1)) {
      const char second = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (second == '%' || second == '#' || second == '{') return at;
    }
    return npos;
  }

  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  // The end of a "{% raw %}" tag that begins at `at`, or npos.
  size_t raw_begin(size_t at) const {
    at += 2;
    if (sign_at(at)) ++at;
    skip_space(at);
    if (source_.compare(at, 3, "raw") != 0) return npos;
    at += 3;
    skip_space(at);
    if (source_.compare(at, 3, "-%}") == 0) {
      at += 3;
      skip_space(at);
      return at;
    }
    return source_.compare(at, 2, "%}") == 0 ? at + 2 : npos;
  }

  void text_and_tag() {
    const size_t tag = next_tag(position_);
    if (tag == npos) {
      add(TokenKind::data, std::string(rest()));
      position_ = source_.size();
      return;
    }
    const char what = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    const std::string_view text =
        before_tag(std::string_view(source_).substr(position_, tag - position_), sign, what != '{');
    if (!text.empty()) add(TokenKind::data, std::string(text));
    const size_t raw_end = what == '%' ? raw_begin(tag) : npos;
    advance_to(tag);
    if (raw_end != npos) {
      advance_to(raw_end);
      raw_text();
    } else if (what == '#') {
      comment();
    } else {
      advance_to(tag + 2 + (sign ? 1 : 0));
      add(what == '%' ? TokenKind::block_begin : TokenKind::variable_begin, "");
      expression_tokens(what == '%');
    }
  }

  // After a tag's closing text of `size` bytes: -} strips all white space, a block's plain end one newline.
  void close(size_t size, bool strip_all, bool trims_newline) {
    size_t end = position_ + size;
    if (strip_all) skip_space(end);
    else if (trims_newline && end < source_.size() && source_[end] == '\n') ++end;
    line_starting_ = source_[end - 1] == '\n';
    advance_to(end);
  }

  void comment() {
    const size_t end = source_.find("#}", position_ + 2);
    if (end == npos) fail("a comment is not closed: '#}' is missing");
    const char sign =
        end > position_ + 2 && (source_[end - 1] == '-' || source_[end - 1] == '+') ? source_[end - 1] : '\0';
    advance_to(end);
    close(2, sign == '-', sign != '+');
  }

  void raw_text() {
    for (size_t tag = source_.find("{%", position_); tag != npos; tag = source_.find("{%", tag + 1)) {
      size_t at = tag + 2;
      const char sign = sign_at(at);
      if (sign) ++at;
      skip_space(at);
      if (source_.compare(at, 6, "endraw") != 0) continue;
      at += 6;
      skip_space(at);
      const char end_sign = sign_at(at);
      if (end_sign) ++at;
      if (source_.compare(at, 2, "%}") != 0) continue;
      line_starting_ = source_[position_ - 1] == '\n';
      const std::string_view text =
          before_tag(std::string_view(source_).substr(position_, tag - position_), sign, true);
      if (!text.empty()) add(TokenKind::data, std::string(text));
      advance_to(at);
      close(2, end_sign == '-', end_sign != '+');
      return;
    }
    fail("a raw section is not closed: '{% endraw %}' is missing");
  }

  void expression_tokens(bool block) {
    brackets_.clear();
    while (true) {
      size_t at = position_;
      skip_space(at);
      advance_to(at);
      if (position_ >= source_.size()) return;  // the parser reports what is missing
      if (brackets_.empty() && closing(block)) return;
      token();
    }
  }

  bool closing(bool block) {
    const std::string_view mark = block ? "%}" : "}}";
    const bool minus = starts(block ? "-%}" : "-}}");
    const bool plus = block && starts("+%}");
    if (!minus && !plus && !starts(mark)) return false;
    add(block ? TokenKind::block_end : TokenKind::variable_end, "");
    close(minus || plus ? 3 : 2, minus, block && !plus);
    return true;
  }

  void token() {
    const char c = source_[position_];
    if (c == '\'' || c == '"') return string_token(c);
    if (std::isdigit(static_cast<unsigned char>(c))) return number_token();
    size_t at = position_;
    const char32_t first = decode(source_, at);
    if (is_identifier_start(first)) {
      for (size_t next = at; at < source_.size() && is_identifier_part(decode(source_, next)); at = next) {
      }
      add(TokenKind::name, source_.substr(position_, at - position_));
      position_ = at;
      return;
    }
    symbol_token(c);
  }

  void symbol_token(char c) {
    static constexpr std::array<std::string_view, 6> kDouble = {"==", "!=", ">=", "<=", "//", "**"};
    for (const std::string_view symbol : kDouble)
      if (starts(symbol)) {
        add(TokenKind::symbol, std::string(symbol));
        position_ += 2;
        return;
      }
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == npos)
      fail("unexpected character " + quoted(rest().substr(0, byte_offset(rest(), 1))));
    if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) fail(std::string("unexpected '") + c + "'");
      if (brackets_.back() != c) fail(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
      brackets_.pop_back();
    }
    add(TokenKind::symbol, std::string(1, c));
    ++position_;
  }

  // Digits with single underscores between them, from `at`; the end of them, or `at` when there is none.
  size_t digits_end(size_t at) const {
    const auto digit = [this](size_t i) {
      return i < source_.size() && std::isdigit(static_cast<unsigned char>(source_[i]));
    };
    if (!digit(at)) return at;
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
    return at;
  }

  void number_token() {
    const size_t whole = digits_end(position_);
    size_t end = whole;
    bool floating = false;
    const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
    if (!after_dot) {
      if (end < source_.size() && source_[end] == '.' && digits_end(end + 1) > end + 1) {
        end = digits_end(end + 1);
        floating = true;
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        size_t at = end + 1;
        if (at < source_.size() && (source_[at] == '+' || source_[at] == '-')) ++at;
        if (digits_end(at) > at) {
          end = digits_end(at);
          floating = true;
        }
      }
    }
    if (!floating) end = integer_end(whole);
    std::string text = source_.substr(position_, end - position_);
    std::erase(text, '_');
    add(floating ? TokenKind::floating : TokenKind::integer, std::move(text));
    position_ = end;
  }

  size_t integer_end(size_t whole) const {
    if (source_[position_] != '0') return whole;
    const char mark = position_ + 1 < source_.size() ? static_cast<char>(source_[position_ + 1] | 0x20) : '\0';
    const std::string_view allowed = mark == 'b'   ? "01"
                                     : mark == 'o' ? "01234567"
                                     : mark == 'x' ? "0123456789abcdefABCDEF"
                                                   : "";
    if (!allowed.empty()) {
      const auto digit = [&](size_t i) { return i < source_.size() && allowed.find(source_[i]) != npos; };
      size_t at = position_ + 2;
      while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
      if (at > position_ + 2) return at;
    }
    size_t at = position_ + 1;  // a leading zero is followed by zeros only
    while (at < whole && (source_[at] == '0' || (source_[at] == '_' && at + 1 < whole && source_[at + 1] == '0'))) ++at;
    return at;
  }

  void string_token(char quote) {
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("a string is not closed");
    const std::string_view body = std::string_view(source_).substr(position_ + 1, end - position_ - 1);
    add(TokenKind::string, unescape(body));
    advance_to(end + 1);
  }

  static char32_t hex_escape(std::string_view body, size_t at, size_t digits) {
    char32_t c = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char h = at + i < body.size() ? body[at + i] : '?';
      if (!std::isxdigit(static_cast<unsigned char>(h))) fail("a string escape has too few hexadecimal digits");
      c = c * 16 + static_cast<char32_t>(h <= '9' ? h - '0' : (h | 0x20) - 'a' + 10);
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) fail("a string escape is not a Unicode character");
    return c;
  }

  // Python's string escapes. Unknown ones stay as they are.
  static std::string unescape(std::string_view body) {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    for (size_t at = 0; at < body.size();) {
      if (body[at] != '\\') {
        out += body[at++];
        continue;
      }
      const char c = body[++at];
      const size_t simple = kFrom.find(c);
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (simple != npos) {
        out += kTo[simple];
        ++at;
      } else if (c == '\n') {
        ++at;
      } else if (digits) {
        append_utf8(out, hex_escape(body, at + 1, digits));
        at += 1 + digits;
      } else if (c >= '0' && c <= '7') {
        char32_t value = 0;
        for (int i = 0; i < 3 && at < body.size() && body[at] >= '0' && body[at] <= '7'; ++i)
          value = value * 8 + static_cast<char32_t>(body[at++] - '0');
        append_utf8(out, value);
      } else if (c == 'N') {
        fail("\\N{...} string escapes are not supported: write the character itself");
      } else if (static_cast<unsigned char>(c) >= 0x80) {  // Python sees the escape of the character here
        char text[12];
        const char32_t code = decode(body, at);
        snprintf(text, sizeof text,
                 code < 0x100     ? "\\x%02x"
                 : code < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                 static_cast<unsigned>(code));
        out += text;
      } else {
        (out += '\\') += c;
        ++at;
      }
    }
    return out;
  }

  std::string source_;
  int& line_;
  size_t position_ = 0;
  bool line_starting_ = true;
  std::string brackets_;  // closing brackets that are due
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenise(std::string_view source, int& line) {
  line = 1;
  if (!valid_utf8(source)) fail("the template is not valid UTF-8");
  return Lexer(normalise_lines(source), line).run();
}

}  // namespace drafthorse::jinja
