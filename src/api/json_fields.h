#pragma once
// Reads the fields of a JSON object strictly: each has a type and a range, and what nobody asked for is an error.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "core/result.h"

namespace drafthorse {

// A getter returns nothing when the field is absent, null or wrong; the first wrong one is remembered and
// done() reports it. Error params are `path` + name: "messages[0]." + "content".
class Fields {
 public:
  explicit Fields(const boost::json::object& object, std::string path = "") : object_(object), path_(std::move(path)) {}

  // The raw value, or nullptr when absent or null.
  const boost::json::value* any(std::string_view name);
  std::optional<double> number(std::string_view name, double low, double high);
  // Accepts 3 and 3.0, not 3.5.
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name);
  const boost::json::object* object(std::string_view name);
  const boost::json::array* array(std::string_view name);
  // Fields that may hold anything and change nothing.
  void ignore(std::initializer_list<std::string_view> names);

  void fail(std::string_view name, std::string message, ErrorKind kind = ErrorKind::invalid_argument);
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  bool failed() const { return error_.has_value(); }
  std::string param(std::string_view name) const { return path_ + std::string(name); }
  // The first error; else invalid_argument for a field that no getter asked for and that is not null.
  Status done() const;

 private:
  void expected(std::string_view name, const std::string& what, const boost::json::value& found);

  const boost::json::object& object_;
  std::string path_;
  std::vector<std::string_view> known_;
  std::optional<Error> error_;
};

// A short description of a value for messages: 7, "abc", an array, an object.
std::string describe(const boost::json::value& value);

}  // namespace drafthorse
