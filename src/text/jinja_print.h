#pragma once
// Values as text: Python's str() and repr(), and json.dumps.

#include <string>

#include "text/jinja_value.h"

namespace drafthorse::jinja {

std::string to_text(Heap& heap, const Value& value);  // str(value)
void append_text(Heap& heap, std::string& out, const Value& value);
std::string representation(Heap& heap, const Value& value);  // repr(value)

struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;  // one level
  std::string item_separator = ", ", key_separator = ": ";
};
Value format_percent(Heap& heap, const Value& format, const Value& values);  // format % values

std::string to_json(Heap& heap, const Value& value, const JsonOptions& options);

}  // namespace drafthorse::jinja
