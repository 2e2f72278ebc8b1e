#include "api/json_fields.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "api/json_text.h"

namespace drafthorse {

namespace json = boost::json;

std::string describe(const json::value& value) {
  switch (value.kind()) {
    case json::kind::object: return "an object";
    case json::kind::array: return "an array";
    case json::kind::string: {
      const json::string& text = value.get_string();
      if (text.size() > 40) return "a string of " + std::to_string(text.size()) + " bytes";
      return json::serialize(text);
    }
    case json::kind::double_: return fmt::format("{}", value.get_double());
    default: return json::serialize(value);
  }
}

const json::value* Fields::any(std::string_view name) {
  known_.push_back(name);
  const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
  return value && !value->is_null() ? value : nullptr;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const json::value* value = any(name);
  if (!value) return std::nullopt;
  const std::string what = fmt::format("a number from {} to {}", low, high);
  if (!value->is_number()) {
    expected(name, what, *value);
    return std::nullopt;
  }
  const double number = value->to_number<double>();
  if (!std::isfinite(number) || number < low || number > high) {
    expected(name, what, *value);
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const json::value* value = any(name);
  if (!value) return std::nullopt;
  json::error_code ec;
  const int64_t number = value->is_number() ? value->to_number<int64_t>(ec) : 0;
  if (!value->is_number() || ec || number < low || number > high) {
    expected(name, fmt::format("a whole number from {} to {}", low, high), *value);
    return std::nullopt;
  }
  return number;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const json::value* value = any(name);
  if (!value) return std::nullopt;
  if (value->is_bool()) return value->get_bool();
  expected(name, "true or false", *value);
  return std::nullopt;
}

std::optional<std::string> Fields::string(std::string_view name) {
  const json::value* value = any(name);
  if (!value) return std::nullopt;
  if (value->is_string()) return std::string(value->get_string().data(), value->get_string().size());
  expected(name, "a string", *value);
  return std::nullopt;
}

const json::object* Fields::object(std::string_view name) {
  const json::value* value = any(name);
  if (!value) return nullptr;
  if (!value->is_object()) expected(name, "an object", *value);
  return value->if_object();
}

const json::array* Fields::array(std::string_view name) {
  const json::value* value = any(name);
  if (!value) return nullptr;
  if (!value->is_array()) expected(name, "an array", *value);
  return value->if_array();
}

void Fields::ignore(std::initializer_list<std::string_view> names) { known_.insert(known_.end(), names); }

void Fields::fail(std::string_view name, std::string message, ErrorKind kind) {
  fail(Error{kind, std::move(message), param(name)});
}

void Fields::expected(std::string_view name, const std::string& what, const json::value& found) {
  fail(name, fmt::format("'{}' must be {}, but {} was given.", param(name), what, describe(found)));
}

Status Fields::done() const {
  if (error_) return *error_;
  for (const auto& field : object_) {
    const std::string_view name(field.key().data(), field.key().size());
    if (field.value().is_null() || std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string shown = param(name.substr(0, 100));
    return Error{ErrorKind::invalid_argument,
                 fmt::format("Unknown field '{}': it is not understood here and might change the answer. Remove it; "
                             "docs/api.md lists the fields.",
                             shown),
                 shown};
  }
  return {};
}

}  // namespace drafthorse
