#include "cli/decimal.h"

#include <cmath>
#include <cstdlib>
#include <string>

namespace drafthorse {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

const char* skip_digits(const char* at, const char* last) {
  while (at != last && digit(*at)) ++at;
  return at;
}

// The end of the number's digits, point and exponent; `first` when there is no digit.
const char* end_of_number(const char* first, const char* last) {
  const char* begin = first != last && *first == '-' ? first + 1 : first;
  const char* whole = skip_digits(begin, last);
  const char* end = whole != last && *whole == '.' ? skip_digits(whole + 1, last) : whole;
  if (whole == begin && end <= whole + 1) return first;
  const char* exponent = end;
  if (exponent == last || (*exponent != 'e' && *exponent != 'E')) return end;
  ++exponent;
  if (exponent != last && (*exponent == '+' || *exponent == '-')) ++exponent;
  const char* behind = skip_digits(exponent, last);
  return behind == exponent ? end : behind;
}

}  // namespace

std::from_chars_result parse_decimal(const char* first, const char* last, double& value) {
  const char* end = end_of_number(first, last);
  if (end == first) return {first, std::errc::invalid_argument};
  // The program never calls setlocale, so the point is a point.
  const double number = std::strtod(std::string(first, end).c_str(), nullptr);
  if (std::isinf(number)) return {end, std::errc::result_out_of_range};
  value = number;
  return {end, std::errc()};
}

}  // namespace drafthorse
