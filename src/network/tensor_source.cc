#include "network/tensor_source.h"

#include <algorithm>

#include <fmt/format.h>

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
  return take(name, {rows, columns}, false);
}

TensorView TensorSource::vector(const std::string& name, int64_t size) { return take(name, {size}, true); }

TensorView TensorSource::take(const std::string& name, std::initializer_list<int64_t> shape, bool is_vector) {
  if (!status_) return {};
  const std::vector<int64_t> expected(shape);
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
  if (is_vector && !is_plain_float(tensor->format)) {
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

Status TensorSource::check_all_taken(std::string_view ignored_suffix) const {
  for (const TensorView& tensor : checkpoint_.tensors()) {
    if (taken_.contains(tensor.name)) continue;
    if (!ignored_suffix.empty() && tensor.name.ends_with(ignored_suffix)) continue;
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
