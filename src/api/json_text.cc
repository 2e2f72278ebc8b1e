#include "api/json_text.h"

#include <fmt/format.h>
#include <boost/json.hpp>

namespace drafthorse {
namespace {

// Length of the valid UTF-8 sequence at the front of `text` (0: none), and of the invalid part to replace.
// Ranges of second bytes: Unicode 15, table 3-7.
struct Sequence {
  size_t valid = 0, invalid = 0;
};
Sequence first_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, 0};
  size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {0, 1};
  unsigned low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {0, i};
    low = 0x80, high = 0xBF;
  }
  return {length, 0};
}

// Values of a document without parsing it: one more than the commas, brackets and colons outside strings.
size_t count_values(std::string_view text) {
  size_t count = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == ',' || c == '[' || c == '{' || c == ':') {
      ++count;
    }
  }
  return count;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Sequence s = first_sequence(text);
    if (s.valid) out.append(text.substr(0, s.valid));
    else out.append("\xEF\xBF\xBD");
    text.remove_prefix(s.valid + s.invalid);
  }
  return out;
}

std::string json_quote(std::string_view text) {
  const std::string valid = valid_utf8(text);
  return boost::json::serialize(boost::json::string_view(valid.data(), valid.size()));
}

Result<boost::json::value> parse_json(std::string_view text, const JsonLimits& limits) {
  if (count_values(text) > limits.values)
    return Error{ErrorKind::invalid_argument,
                 fmt::format("The request's JSON holds more than {} values; send a smaller request.", limits.values),
                 ""};
  boost::json::parse_options options;
  options.max_depth = static_cast<size_t>(limits.depth);
  boost::json::stream_parser parser({}, options);
  boost::json::error_code ec;
  const size_t read = parser.write_some(text.data(), text.size(), ec);
  size_t at = read;
  if (!ec && read < text.size() && text.find_first_not_of(" \t\r\n", read) != std::string_view::npos)
    ec = boost::json::error::extra_data;
  if (!ec) {
    parser.finish(ec);
    at = text.size();
  }
  if (!ec) return parser.release();
  if (ec == boost::json::error::too_deep)
    return Error{ErrorKind::invalid_argument,
                 fmt::format("The request's JSON is nested deeper than {} levels at byte {}.", limits.depth, at), ""};
  return Error{ErrorKind::invalid_argument,
               fmt::format("The request body is not valid JSON: {} at byte {} of {}.", ec.message(), at, text.size()),
               ""};
}

}  // namespace drafthorse
