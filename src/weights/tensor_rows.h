#pragma once
// Parts of a tensor by rows: views of some, and copies of some put together in another order.

#include <span>
#include <vector>

#include "core/result.h"
#include "weights/tensor.h"

namespace drafthorse {

// `count` rows from `first` on.
struct RowRange {
  int64_t first = 0, count = 0;
};

// The rows of `tensor`, taken as [rows(), columns()], as a view [count, columns()] of the same bytes, scales and biases
// included. Errors: corrupt, naming the tensor, when the rows are not all there or its bytes are fewer than they need;
// unsupported when a row is no whole number of the format's blocks.
Result<TensorView> slice_rows(const TensorView& tensor, int64_t first, int64_t count);

// A tensor that owns its bytes; `view` borrows them, and moving the owner keeps it valid.
struct GatheredTensor {
  TensorView view;
  std::vector<std::byte> data, scales, biases;
};

// Copies rows of `tensor` in the order of `ranges` into a tensor [sum of counts, columns()] called `name`. A row's bytes
// are copied as they are, so the values are equal. Errors: those of slice_rows.
Result<GatheredTensor> gather_rows(const TensorView& tensor, std::span<const RowRange> ranges, const std::string& name);

}  // namespace drafthorse
