// MLX's quantised rows. A row is one little-endian bit stream: element i occupies bits [i * bits, (i + 1) * bits),
// counted from the least significant bit of byte 0. Group g = column / group_size shares a scale (and a bias).

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "weights/dequantise_rows.h"
#include "weights/float_formats.h"

namespace drafthorse {
namespace {

// Element i of a bit stream; bits <= 8. Reads one byte past the first only when the element straddles into it.
uint32_t packed_element(const std::byte* row, int64_t i, int bits) {
  const int64_t bit = i * bits;
  const int shift = static_cast<int>(bit % 8);
  uint32_t word = static_cast<uint32_t>(row[bit / 8]);
  if (shift + bits > 8) word |= static_cast<uint32_t>(row[bit / 8 + 1]) << 8;
  return word >> shift & ((1u << bits) - 1u);
}

float float_at(Format format, const std::byte* values, int64_t i) {
  switch (format) {
    case Format::f32: return load<float>(values + 4 * i);
    case Format::f16: return f16_to_float(load<uint16_t>(values + 2 * i));
    default: return bf16_to_float(load<uint16_t>(values + 2 * i));
  }
}

float block_scale(const TensorView& tensor, int64_t group) {
  const auto bits = static_cast<uint8_t>(tensor.scales[static_cast<size_t>(group)]);
  return tensor.format == Format::nvfp4 ? e4m3_to_float(bits) : e8m0_to_float(bits);
}

bool one_of(int value, std::initializer_list<int> choices) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

Error storage_error(const TensorView& tensor, const std::string& text) {
  return {ErrorKind::corrupt, fmt::format("tensor \"{}\" ({}): {}", tensor.name, name(tensor.format), text), {}};
}

bool valid_geometry(const TensorView& tensor) {
  const int bits = tensor.bits, group = tensor.group_size;
  switch (tensor.format) {
    case Format::affine: return one_of(bits, {2, 3, 4, 5, 6, 8}) && one_of(group, {32, 64, 128});
    case Format::mxfp4: return bits == 4 && group == 32;
    case Format::mxfp8: return bits == 8 && group == 32;
    case Format::nvfp4: return bits == 4 && group == 16;
    default: return false;
  }
}

}  // namespace

Status check_mlx_storage(const TensorView& tensor) {
  if (!valid_geometry(tensor)) {
    return storage_error(tensor, fmt::format("{} bits with groups of {} do not exist", tensor.bits, tensor.group_size));
  }
  Result<int64_t> count = element_count(tensor.shape);
  if (!count) return storage_error(tensor, count.error().message);
  const int64_t columns = tensor.columns();
  if (columns % tensor.group_size != 0) {
    return storage_error(tensor,
                         fmt::format("{} columns are no whole number of groups of {}", columns, tensor.group_size));
  }
  const auto check = [&](const char* part, size_t found, int64_t expected) -> Status {
    if (found == static_cast<size_t>(expected)) return {};
    return storage_error(tensor, fmt::format("expected {} bytes of {}, found {}", expected, part, found));
  };
  const int64_t groups = *count / tensor.group_size;
  const bool affine = tensor.format == Format::affine;
  if (affine &&
      !one_of(static_cast<int>(tensor.scale_format),
              {static_cast<int>(Format::f32), static_cast<int>(Format::f16), static_cast<int>(Format::bf16)})) {
    return storage_error(tensor, fmt::format("scales cannot be {}", name(tensor.scale_format)));
  }
  const int64_t scale_bytes = affine ? groups * block_layout(tensor.scale_format).bytes : groups;
  // count / 8 * bits does not overflow: it is at most count.
  if (Status s = check("weights", tensor.data.size(), *count / 8 * tensor.bits); !s) return s;
  if (Status s = check("scales", tensor.scales.size(), scale_bytes); !s) return s;
  return check("biases", tensor.biases.size(), affine ? scale_bytes : 0);
}

void decode_mlx_row(const TensorView& tensor, int64_t row, float* out) {
  const int64_t columns = tensor.columns(), groups = columns / tensor.group_size;
  const std::byte* packed = tensor.data.data() + row * (columns / 8 * tensor.bits);
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t group = row * groups + g, begin = g * tensor.group_size, end = begin + tensor.group_size;
    if (tensor.format == Format::affine) {
      const float scale = float_at(tensor.scale_format, tensor.scales.data(), group);
      const float bias = float_at(tensor.scale_format, tensor.biases.data(), group);
      for (int64_t i = begin; i < end; ++i) {
        out[i] = scale * static_cast<float>(packed_element(packed, i, tensor.bits)) + bias;
      }
      continue;
    }
    const float scale = block_scale(tensor, group);
    for (int64_t i = begin; i < end; ++i) {
      const auto code = static_cast<uint8_t>(packed_element(packed, i, tensor.bits));
      out[i] = scale * (tensor.format == Format::mxfp8 ? e4m3_to_float(code) : e2m1_to_float(code));
    }
  }
}

}  // namespace drafthorse
