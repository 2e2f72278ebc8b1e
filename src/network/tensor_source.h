#pragma once
// Takes a checkpoint's tensors by name, checks each against the architecture, and knows which were left over.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "network/network.h"

namespace drafthorse {

class TensorSource {
 public:
  explicit TensorSource(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool has(std::string_view name) const { return checkpoint_.find(name) != nullptr; }
  const TensorView* find(std::string_view name) const { return checkpoint_.find(name); }

  // A matrix of any format with a matrix product. The first failed check is kept in status(); the returned value is
  // then empty, so that callers can go on and ask once at the end.
  TensorView matrix(const std::string& name, int64_t rows, int64_t columns);
  // A vector of f32, f16 or bf16.
  TensorView vector(const std::string& name, int64_t size);
  // `count` matrices that the file holds as one tensor [count, rows, columns].
  std::vector<TensorView> stack(const std::string& name, int64_t count, int64_t rows, int64_t columns);
  // f32, f16 or bf16 values of any shape.
  TensorView plain(const std::string& name, std::span<const int64_t> shape);
  // Rows first .. first + count - 1 of a tensor that was taken, as a matrix.
  TensorView rows(const TensorView& tensor, int64_t first, int64_t count);

  // Keeps an error about the checkpoint: "PATH: TEXT".
  void fail(ErrorKind kind, const std::string& text);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  // Error: unsupported, naming the first tensor that was not taken and that `ignored` does not accept.
  Status check_all_taken(const std::function<bool(std::string_view name)>& ignored) const;

 private:
  TensorView take(const std::string& name, std::span<const int64_t> shape, bool is_plain);

  const Checkpoint& checkpoint_;
  std::set<std::string, std::less<>> taken_;
  Status status_;
};

}  // namespace drafthorse
