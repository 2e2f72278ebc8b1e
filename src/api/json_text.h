#pragma once
// Text on its way in and out of JSON.

#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "core/result.h"

namespace drafthorse {

// The text with every maximal invalid UTF-8 sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// A JSON string literal with its quotes; always valid UTF-8.
std::string json_quote(std::string_view text);

// Limits of one parsed document, so that a small body cannot ask for much memory or stack.
struct JsonLimits {
  int depth = 64;
  size_t values = 1 << 20;
};

// Errors: invalid_argument with the byte position and what is wrong, or the limit that was passed.
Result<boost::json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace drafthorse
