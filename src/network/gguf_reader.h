#pragma once
// Reads GGUF metadata strictly: every key of the architecture is either read, known to be harmless, or refused by name.

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "weights/checkpoint.h"

namespace drafthorse {

// Reads keys "{architecture}.KEY"; keeps the first error and knows which keys were read, as ConfigReader does.
class GgufReader {
 public:
  // A list's zeros stand for layers that do not have the part, where `zeros_are_absent`; elsewhere all must be equal.
  GgufReader(const Checkpoint& checkpoint, std::string architecture, bool zeros_are_absent = false)
      : checkpoint_(checkpoint), prefix_(std::move(architecture) + "."), zeros_are_absent_(zeros_are_absent) {}

  const GgufValue* value(std::string_view key);
  // A size from 0 to 2^31-1: an integer, or an array with the same value for every layer.
  std::optional<int> size(std::string_view key);
  int required_size(std::string_view key);
  std::optional<double> number(std::string_view key);
  std::string text(std::string_view key, const char* fallback);
  std::optional<bool> boolean(std::string_view key);

  void fail(ErrorKind kind, std::string_view key, const std::string& text);
  const Status& status() const { return status_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }

  // Error: the first one, or unsupported, naming the keys that were not read.
  Status finish() const;

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
  bool zeros_are_absent_;
  std::set<std::string> read_;
  Status status_;
};

}  // namespace drafthorse
