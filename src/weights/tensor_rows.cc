#include "weights/tensor_rows.h"

#include <fmt/format.h>

namespace drafthorse {
namespace {

// Bytes that one row has in each of a tensor's parts.
struct RowBytes {
  int64_t data = 0, scales = 0, biases = 0;
};

Error rows_error(const TensorView& tensor, ErrorKind kind, const std::string& text) {
  return {kind, fmt::format("tensor \"{}\": {}", tensor.name, text), {}};
}

Result<RowBytes> row_bytes(const TensorView& tensor) {
  const int64_t columns = tensor.columns();
  const auto whole = [&](int64_t elements) { return elements > 0 && columns % elements == 0; };
  const auto broken = [&](int64_t elements) {
    return rows_error(tensor, ErrorKind::unsupported,
                      fmt::format("rows of {} columns are no whole blocks of {}", columns, elements));
  };
  const BlockLayout layout = block_layout(tensor.format);
  if (layout.elements > 0) {
    if (!whole(layout.elements)) return broken(layout.elements);
    return RowBytes{columns / layout.elements * layout.bytes, 0, 0};
  }
  if (!whole(tensor.group_size)) return broken(tensor.group_size);
  if (columns * tensor.bits % 8 != 0) return broken(8);
  const int64_t scales = columns / tensor.group_size * block_layout(tensor.scale_format).bytes;
  return RowBytes{columns * tensor.bits / 8, scales, tensor.format == Format::affine ? scales : 0};
}

}  // namespace

Result<TensorView> slice_rows(const TensorView& tensor, int64_t first, int64_t count) {
  const int64_t rows = tensor.rows();
  if (first < 0 || count < 0 || first > rows || count > rows - first) {
    return rows_error(tensor, ErrorKind::corrupt,
                      fmt::format("{} rows from {} on were asked for, but it has {}", count, first, rows));
  }
  const Result<RowBytes> bytes = row_bytes(tensor);
  if (!bytes) return bytes.error();
  TensorView view = tensor;
  view.shape = {count, tensor.columns()};
  bool complete = true;
  const auto cut = [&](std::span<const std::byte>& part, int64_t row) {
    const int64_t there = row > 0 ? static_cast<int64_t>(part.size()) / row : rows;
    complete = complete && first <= there && count <= there - first;
    if (complete) part = part.subspan(static_cast<size_t>(first * row), static_cast<size_t>(count * row));
  };
  cut(view.data, bytes->data);
  cut(view.scales, bytes->scales);
  cut(view.biases, bytes->biases);
  if (complete) return view;
  return rows_error(
      tensor, ErrorKind::corrupt,
      fmt::format("{} rows from {} on were asked for, but its {} bytes hold fewer", count, first, tensor.bytes()));
}

Result<GatheredTensor> gather_rows(const TensorView& tensor, std::span<const RowRange> ranges,
                                   const std::string& name) {
  GatheredTensor gathered;
  gathered.view = tensor;
  gathered.view.name = name;
  int64_t rows = 0;
  for (const RowRange& range : ranges) {
    const Result<TensorView> slice = slice_rows(tensor, range.first, range.count);
    if (!slice) return slice.error();
    gathered.data.insert(gathered.data.end(), slice->data.begin(), slice->data.end());
    gathered.scales.insert(gathered.scales.end(), slice->scales.begin(), slice->scales.end());
    gathered.biases.insert(gathered.biases.end(), slice->biases.begin(), slice->biases.end());
    rows += range.count;
  }
  gathered.view.shape = {rows, tensor.columns()};
  gathered.view.data = gathered.data;
  gathered.view.scales = gathered.scales;
  gathered.view.biases = gathered.biases;
  return gathered;
}

}  // namespace drafthorse
