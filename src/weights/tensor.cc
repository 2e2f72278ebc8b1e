#include "weights/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace drafthorse {

std::string_view name(Format format) {
  switch (format) {
    case Format::f32: return "f32";
    case Format::f16: return "f16";
    case Format::bf16: return "bf16";
    case Format::i32: return "i32";
    case Format::u32: return "u32";
    case Format::u8: return "u8";
    case Format::i8: return "i8";
    case Format::i64: return "i64";
    case Format::f8_e4m3: return "f8_e4m3";
    case Format::q4_0: return "q4_0";
    case Format::q4_1: return "q4_1";
    case Format::q5_0: return "q5_0";
    case Format::q5_1: return "q5_1";
    case Format::q8_0: return "q8_0";
    case Format::q2_k: return "q2_k";
    case Format::q3_k: return "q3_k";
    case Format::q4_k: return "q4_k";
    case Format::q5_k: return "q5_k";
    case Format::q6_k: return "q6_k";
    case Format::iq4_nl: return "iq4_nl";
    case Format::iq4_xs: return "iq4_xs";
    case Format::mxfp4_blocks: return "mxfp4_blocks";
    case Format::affine: return "affine";
    case Format::mxfp4: return "mxfp4";
    case Format::mxfp8: return "mxfp8";
    case Format::nvfp4: return "nvfp4";
  }
  return "unknown";
}

BlockLayout block_layout(Format format) {
  switch (format) {
    case Format::f32:
    case Format::i32:
    case Format::u32: return {1, 4};
    case Format::f16:
    case Format::bf16: return {1, 2};
    case Format::u8:
    case Format::i8:
    case Format::f8_e4m3: return {1, 1};
    case Format::i64: return {1, 8};
    case Format::q4_0:
    case Format::iq4_nl: return {32, 18};
    case Format::q4_1: return {32, 20};
    case Format::q5_0: return {32, 22};
    case Format::q5_1: return {32, 24};
    case Format::q8_0: return {32, 34};
    case Format::mxfp4_blocks: return {32, 17};
    case Format::q2_k: return {256, 84};
    case Format::q3_k: return {256, 110};
    case Format::q4_k: return {256, 144};
    case Format::q5_k: return {256, 176};
    case Format::q6_k: return {256, 210};
    case Format::iq4_xs: return {256, 136};
    case Format::affine:
    case Format::mxfp4:
    case Format::mxfp8:
    case Format::nvfp4: return {};
  }
  return {};
}

Result<int64_t> element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
      return Error{ErrorKind::corrupt, fmt::format("shape {} has no valid number of elements", shape_text(shape)), {}};
    }
  }
  return count;
}

Result<size_t> byte_count(Format format, std::span<const int64_t> shape) {
  const BlockLayout layout = block_layout(format);
  if (layout.elements == 0) {
    return Error{ErrorKind::unsupported, fmt::format("{} is not a contiguous format", name(format)), {}};
  }
  Result<int64_t> count = element_count(shape);
  if (!count) return count.error();
  const int64_t columns = shape.empty() ? 1 : shape.back();
  if (columns % layout.elements != 0) {
    return Error{ErrorKind::corrupt,
                 fmt::format("{} holds blocks of {} elements, but the contiguous axis of shape {} is no multiple of it",
                             name(format), layout.elements, shape_text(shape)),
                 {}};
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(*count / layout.elements, layout.bytes, &bytes)) {
    return Error{ErrorKind::corrupt, fmt::format("shape {} has no valid number of bytes", shape_text(shape)), {}};
  }
  return static_cast<size_t>(bytes);
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

}  // namespace drafthorse
