#include "network/gguf_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace drafthorse {

const GgufValue* GgufReader::value(std::string_view key) {
  const std::string full = prefix_ + std::string(key);
  read_.insert(full);
  const auto found = checkpoint_.metadata().find(full);
  return found == checkpoint_.metadata().end() ? nullptr : &found->second;
}

std::optional<int> GgufReader::size(std::string_view key) {
  const GgufValue* found = value(key);
  if (!found) return std::nullopt;
  const int64_t* number = std::get_if<int64_t>(found);
  if (const auto* list = std::get_if<std::vector<int64_t>>(found); list && !list->empty()) {
    const auto counts = [&](int64_t n) { return n != 0 || !zeros_are_absent_; };
    const auto first = std::find_if(list->begin(), list->end(), counts);
    number = first == list->end() ? &list->front() : &*first;
    if (std::any_of(list->begin(), list->end(), [&](int64_t n) { return counts(n) && n != *number; })) {
      fail(ErrorKind::unsupported, key, "layers with different sizes are not supported in this family");
      return std::nullopt;
    }
  }
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) {
    fail(ErrorKind::corrupt, key, "expected an integer from 0 to 2147483647");
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

int GgufReader::required_size(std::string_view key) {
  const bool had_error = !status_.ok();
  const auto found = size(key);
  if (!found && !had_error) fail(ErrorKind::corrupt, key, "expected an integer, but it is missing");
  return found.value_or(0);
}

std::optional<double> GgufReader::number(std::string_view key) {
  const GgufValue* found = value(key);
  if (!found) return std::nullopt;
  const double* real = std::get_if<double>(found);
  const int64_t* integer = std::get_if<int64_t>(found);
  const double result = real ? *real : integer ? static_cast<double>(*integer) : std::nan("");
  if (!std::isfinite(result)) {
    fail(ErrorKind::corrupt, key, "expected a number");
    return std::nullopt;
  }
  return result;
}

std::string GgufReader::text(std::string_view key, const char* fallback) {
  const GgufValue* found = value(key);
  if (!found) return fallback;
  if (const auto* text = std::get_if<std::string>(found)) return *text;
  fail(ErrorKind::corrupt, key, "expected a string");
  return fallback;
}

std::optional<bool> GgufReader::boolean(std::string_view key) {
  const GgufValue* found = value(key);
  if (!found) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(found)) return *flag;
  fail(ErrorKind::corrupt, key, "expected true or false");
  return std::nullopt;
}

void GgufReader::fail(ErrorKind kind, std::string_view key, const std::string& text) {
  if (!status_) return;
  status_ =
      Error{kind, fmt::format("{}: metadata key \"{}{}\": {}", checkpoint_.path().string(), prefix_, key, text), {}};
}

Status GgufReader::finish() const {
  if (!status_) return status_;
  const std::set<std::string> harmless = {prefix_ + "vocab_size", prefix_ + "rope.scaling.finetuned",
                                          prefix_ + "tensor_data_layout"};
  std::vector<std::string> unknown;
  for (const auto& [key, value] : checkpoint_.metadata()) {
    if (key.starts_with(prefix_) && !read_.contains(key) && !harmless.contains(key)) unknown.push_back(key);
  }
  if (unknown.empty()) return {};
  return Error{ErrorKind::unsupported,
               fmt::format("{}: these metadata keys are not understood and may change what the model computes: {}",
                           checkpoint_.path().string(), fmt::join(unknown, ", ")),
               {}};
}

}  // namespace drafthorse
