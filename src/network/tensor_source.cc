#include "network/tensor_source.h"

#include <array>

#include <fmt/format.h>

#include "weights/tensor_rows.h"

namespace drafthorse {
namespace {

bool is_plain_float(Format format) { return format == Format::f32 || format == Format::f16 || format == Format::bf16; }

// Formats that are arrays of something other than weights.
bool has_matrix_product(Format format) {
  switch (format) {
    case Format::i32:
    case Format::u32:
    case Format::u8:
    case Format::i8:
    case Format::i64:
    case Format::f8_e4m3: return false;
    default: return true;
  }
}

}  // namespace

TensorView TensorSource::matrix(const std::string& name, int64_t rows, int64_t columns) {
  return take(name, std::array{rows, columns}, false);
}

TensorView TensorSource::vector(const std::string& name, int64_t size) { return take(name, std::array{size}, true); }

TensorView TensorSource::plain(const std::string& name, std::span<const int64_t> shape) {
  return take(name, shape, true);
}

std::vector<TensorView> TensorSource::stack(const std::string& name, int64_t count, int64_t rows, int64_t columns) {
  const TensorView whole = take(name, std::array{count, rows, columns}, false);
  std::vector<TensorView> matrices;
  for (int64_t i = 0; i < count && ok(); ++i) matrices.push_back(this->rows(whole, i * rows, rows));
  return matrices;
}

TensorView TensorSource::rows(const TensorView& tensor, int64_t first, int64_t count) {
  if (!status_) return {};
  Result<TensorView> slice = slice_rows(tensor, first, count);
  if (slice) return std::move(*slice);
  status_ = slice.error().with_context(checkpoint_.path().string());
  return {};
}

void TensorSource::fail(ErrorKind kind, const std::string& text) {
  if (status_) status_ = Error{kind, fmt::format("{}: {}", checkpoint_.path().string(), text), {}};
}

TensorView TensorSource::take(const std::string& name, std::span<const int64_t> shape, bool is_plain) {
  if (!status_) return {};
  const std::vector<int64_t> expected(shape.begin(), shape.end());
  const auto fail = [&](ErrorKind kind, const std::string& text) {
    status_ = Error{kind, fmt::format("{}: tensor \"{}\": {}", checkpoint_.path().string(), name, text), {}};
    return TensorView{};
  };
  const TensorView* tensor = checkpoint_.find(name);
  if (!tensor)
    return fail(ErrorKind::corrupt, fmt::format("expected shape {}, but it is missing", shape_text(expected)));
  if (tensor->shape != expected) {
    return fail(ErrorKind::corrupt,
                fmt::format("expected shape {}, found {}", shape_text(expected), shape_text(tensor->shape)));
  }
  if (is_plain && !is_plain_float(tensor->format)) {
    return fail(ErrorKind::unsupported,
                fmt::format("expected f32, f16 or bf16, found {}", drafthorse::name(tensor->format)));
  }
  if (!has_matrix_product(tensor->format)) {
    return fail(ErrorKind::unsupported,
                fmt::format("expected weights, found {} without scales", drafthorse::name(tensor->format)));
  }
  taken_.insert(name);
  return *tensor;
}

Status TensorSource::check_all_taken(const std::function<bool(std::string_view)>& ignored) const {
  for (const TensorView& tensor : checkpoint_.tensors()) {
    if (taken_.contains(tensor.name) || ignored(tensor.name)) continue;
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: tensor \"{}\" {} {} has no place in this architecture; the checkpoint needs a family "
                             "that uses it",
                             checkpoint_.path().string(), tensor.name, drafthorse::name(tensor.format),
                             shape_text(tensor.shape)),
                 {}};
  }
  return {};
}

}  // namespace drafthorse
