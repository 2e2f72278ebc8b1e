#pragma once
// Text as Python's str sees it: positions and lengths are code points; all input is valid UTF-8.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace drafthorse::jinja {

bool valid_utf8(std::string_view text);
char32_t decode(std::string_view text, size_t& position);  // advances position past one code point
void append_utf8(std::string& out, char32_t c);
int64_t count_code_points(std::string_view text);
size_t byte_offset(std::string_view text, int64_t code_point);  // clamps to the end

bool is_space(char32_t c);      // str.isspace
bool is_printable(char32_t c);  // str.isprintable
bool is_cased(char32_t c);
bool is_word(char32_t c);  // \w of Python's re
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);        // str.title
std::string to_capitalised(std::string_view text);  // str.capitalize
std::string swap_case(std::string_view text);
std::string fold_case(std::string_view text);
void append_upper(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

// Strips the code points in `characters`, white space when there is no value.
std::string_view strip(std::string_view text, std::optional<std::string_view> characters, bool left, bool right);

// First position of needle at or after `from` in linear time; npos when there is none.
size_t find_text(std::string_view text, std::string_view needle, size_t from = 0);

std::string quoted(std::string_view text);  // repr(str)
std::string float_text(double value);       // repr(float)
std::string int_text(__int128 value);
// Python's int(text, base) and float(text).
std::optional<__int128> parse_int(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);
std::string escape_html(std::string_view text);  // & < > ' " as markupsafe writes them

}  // namespace drafthorse::jinja
