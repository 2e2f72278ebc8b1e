#pragma once
// Reads a config.json object strictly: every key is either read, known to be harmless, or refused by name.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "core/result.h"

namespace drafthorse {

// The first error is kept in status(); later reads then return their fallbacks, so that callers can read everything
// and ask once. A key whose value is null counts as absent, as it does for the programs that write these files.
class ConfigReader {
 public:
  // `place` names the object in messages, for example "models/x/config.json".
  ConfigReader(const boost::json::object& object, std::string place) : object_(object), place_(std::move(place)) {}

  bool has(std::string_view key) const { return value(key) != nullptr; }

  int required_size(std::string_view key);       // an integer in 1..2^31-1
  int size(std::string_view key, int fallback);  // the same, or absent
  std::optional<int64_t> integer(std::string_view key);
  std::optional<double> number(std::string_view key);  // finite
  double number(std::string_view key, double fallback) { return number(key).value_or(fallback); }
  bool boolean(std::string_view key, bool fallback);
  std::optional<std::string> text(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  std::optional<std::vector<int64_t>> integers(std::string_view key);
  const boost::json::object* object(std::string_view key);

  // Reads a key that has one value the engine implements: anything else is unsupported.
  void expect_text(std::string_view key, std::string_view only);
  void expect_boolean(std::string_view key, bool only);

  void fail(ErrorKind kind, std::string_view key, const std::string& text);
  // Takes over another reader's error.
  void adopt(const Status& status);
  const Status& status() const { return status_; }
  const std::string& place() const { return place_; }

  // Error: unsupported, naming every key that was not read and is not in `harmless`.
  Status check_all_read(const std::set<std::string_view>& harmless);

 private:
  const boost::json::value* value(std::string_view key) const;
  const boost::json::value* read(std::string_view key);

  const boost::json::object& object_;
  std::string place_;
  std::set<std::string, std::less<>> read_;
  Status status_;
};

// Keys of config.json that cannot change the logits of a decoder: names, dtypes, training and generation defaults.
const std::set<std::string_view>& harmless_config_keys();

}  // namespace drafthorse
