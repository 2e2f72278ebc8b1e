#pragma once
// std::from_chars for double, which libc++ (macOS) lacks before version 20.

#include <charconv>

namespace drafthorse {

// Reads the decimal number ("-1.5e3") that [first, last) begins with into `value`; `ptr` of the result is behind it.
// Not a number there (white space, '+', "inf", "nan" and hexadecimal are none): invalid_argument. Too large for a
// double: result_out_of_range. On errors `value` stays.
std::from_chars_result parse_decimal(const char* first, const char* last, double& value);

}  // namespace drafthorse
