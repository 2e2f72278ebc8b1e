#include <fmt/format.h>

#include "weights/dequantise_rows.h"
#include "weights/float_formats.h"
#include "weights/tensor.h"

namespace drafthorse {
namespace {

bool is_mlx(Format format) {
  return format == Format::affine || format == Format::mxfp4 || format == Format::mxfp8 || format == Format::nvfp4;
}

Error tensor_error(ErrorKind kind, const TensorView& tensor, const std::string& text) {
  return {kind, fmt::format("tensor \"{}\": {}", tensor.name, text), {}};
}

// Decodes `count` plain elements that start at `data`. False when the format is not a plain float array.
bool decode_plain(Format format, const std::byte* data, int64_t count, float* out) {
  const auto each = [&](auto decode) {
    for (int64_t i = 0; i < count; ++i) out[i] = decode(i);
    return true;
  };
  switch (format) {
    case Format::f32: return each([&](int64_t i) { return load<float>(data + 4 * i); });
    case Format::f16: return each([&](int64_t i) { return f16_to_float(load<uint16_t>(data + 2 * i)); });
    case Format::bf16: return each([&](int64_t i) { return bf16_to_float(load<uint16_t>(data + 2 * i)); });
    case Format::f8_e4m3: return each([&](int64_t i) { return e4m3_to_float(load<uint8_t>(data + i)); });
    default: return false;
  }
}

Status check_arguments(const TensorView& tensor, int64_t first, int64_t count, size_t out_size) {
  const int64_t rows = tensor.rows();
  if (first < 0 || count < 0 || first > rows || count > rows - first) {
    return tensor_error(ErrorKind::corrupt, tensor,
                        fmt::format("rows {} to {} were asked, but it has {}", first, first + count, rows));
  }
  if (static_cast<uint64_t>(out_size) < static_cast<uint64_t>(count) * static_cast<uint64_t>(tensor.columns())) {
    return tensor_error(ErrorKind::corrupt, tensor, fmt::format("the output has room for {} values only", out_size));
  }
  if (is_mlx(tensor.format)) return check_mlx_storage(tensor);
  Result<size_t> expected = byte_count(tensor.format, tensor.shape);
  if (!expected) return tensor_error(expected.error().kind, tensor, expected.error().message);
  if (tensor.data.size() < *expected) {
    return tensor_error(ErrorKind::corrupt, tensor,
                        fmt::format("expected {} bytes, found {}", *expected, tensor.data.size()));
  }
  return {};
}

}  // namespace

Status dequantise(const TensorView& tensor, int64_t first, int64_t count, std::span<float> out) {
  if (Status status = check_arguments(tensor, first, count, out.size()); !status) return status;
  const int64_t columns = tensor.columns();
  if (is_mlx(tensor.format)) {
    for (int64_t row = 0; row < count; ++row) decode_mlx_row(tensor, first + row, out.data() + row * columns);
    return {};
  }
  const BlockLayout layout = block_layout(tensor.format);
  const std::byte* source = tensor.data.data() + first * (columns / layout.elements) * layout.bytes;
  if (decode_plain(tensor.format, source, count * columns, out.data())) return {};
  BlockDecoder decode = small_block_decoder(tensor.format);
  if (!decode) decode = super_block_decoder(tensor.format);
  if (!decode) {
    return tensor_error(ErrorKind::unsupported, tensor,
                        fmt::format("{} elements have no floating-point meaning", name(tensor.format)));
  }
  const int64_t blocks = count * columns / layout.elements;
  for (int64_t b = 0; b < blocks; ++b) decode(source + b * layout.bytes, out.data() + b * layout.elements);
  return {};
}

}  // namespace drafthorse
