#pragma once
// Template source to tokens, with the white space rules of trim_blocks and lstrip_blocks applied.

#include <string>
#include <string_view>
#include <vector>

namespace drafthorse::jinja {

enum class TokenKind : unsigned char {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  floating,
  symbol,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 0;
  std::string text = {};  // data and strings: their value; numbers: digits without underscores
  bool is(TokenKind k, std::string_view t) const { return kind == k && text == t; }
};

// A failure's line is in `line`. The last token is `end`. Throws Failure.
std::vector<Token> tokenise(std::string_view source, int& line);

}  // namespace drafthorse::jinja
