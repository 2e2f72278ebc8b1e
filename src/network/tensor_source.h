#pragma once
// Takes a checkpoint's tensors by name, checks each against the architecture, and knows which were left over.

#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "network/network.h"

namespace drafthorse {

class TensorSource {
 public:
  explicit TensorSource(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool has(std::string_view name) const { return checkpoint_.find(name) != nullptr; }

  // A matrix of any format with a matrix product. The first failed check is kept in status(); the returned value is
  // then empty, so that callers can go on and ask once at the end.
  TensorView matrix(const std::string& name, int64_t rows, int64_t columns);
  // A vector of f32, f16 or bf16.
  TensorView vector(const std::string& name, int64_t size);

  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  // Error: unsupported, naming the first tensor that was not taken and does not end in `ignored_suffix`.
  Status check_all_taken(std::string_view ignored_suffix) const;

 private:
  TensorView take(const std::string& name, std::initializer_list<int64_t> shape, bool is_vector);

  const Checkpoint& checkpoint_;
  std::set<std::string, std::less<>> taken_;
  Status status_;
};

}  // namespace drafthorse
