#pragma once
// A tensor of a checkpoint, as it lies in the mapped file: nothing here knows what a layer is.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace drafthorse {

// How the elements are stored (block layouts: docs/architecture.md, "Weight formats").
enum class Format : uint8_t {
  f32,
  f16,
  bf16,
  i32,
  u32,
  u8,
  i8,
  i64,
  f8_e4m3,  // plain arrays that no matrix product reads directly
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,  // GGUF, blocks of 32
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,  // GGUF, super-blocks of 256
  iq4_nl,
  iq4_xs,
  mxfp4_blocks,  // GGUF, table values / E2M1
  affine,        // MLX: packed bits + scales + biases, `bits` and `group_size` say which
  mxfp4,
  mxfp8,
  nvfp4,  // MLX: packed E2M1 / E4M3 + uint8 scales, no biases
};
std::string_view name(Format format);

// How elements are grouped in a contiguous format: `elements` values in `bytes` bytes. {0, 0} for the MLX formats,
// whose size depends on bits and group_size.
struct BlockLayout {
  int elements = 0, bytes = 0;
};
BlockLayout block_layout(Format format);

// Product of the shape (1 for a scalar). Errors: corrupt when a size is negative or the product exceeds int64.
Result<int64_t> element_count(std::span<const int64_t> shape);
// Bytes of a contiguous tensor. Errors: corrupt when the contiguous axis is no whole number of blocks, or on
// overflow; unsupported for the MLX formats.
Result<size_t> byte_count(Format format, std::span<const int64_t> shape);
// "[2, 3]", for messages.
std::string shape_text(std::span<const int64_t> shape);

// A borrowed view; the Checkpoint that made it owns the bytes and must outlive it. The spans may start at any address:
// read multi-byte values with load<T> of float_formats.h.
struct TensorView {
  std::string name;  // as in the file, e.g. "blk.0.attn_q.weight"
  Format format = Format::f32;
  int bits = 0, group_size = 0;        // affine, mxfp4, mxfp8, nvfp4 only
  Format scale_format = Format::bf16;  // affine: dtype of scales and biases; fp modes: u8
  std::vector<int64_t> shape;          // logical, row-major, outermost first: a linear is [out, in]
  std::span<const std::byte> data, scales, biases;

  int64_t elements() const;  // product of shape; the readers have checked that it fits
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }  // contiguous axis
  int64_t rows() const { return columns() ? elements() / columns() : 0; }
  size_t bytes() const { return data.size() + scales.size() + biases.size(); }
};

// The exact value of `count` rows of a tensor: out[r * columns + c], fp32. `first + count` <= rows().
// Formulas: docs/architecture.md, "Weight formats" (MLX affine and fp blocks, GGUF blocks).
// Errors: unsupported for a format that has no float meaning (i32 …); corrupt when rows, `out` or the tensor's bytes
// are fewer than the shape and the arguments need.
Status dequantise(const TensorView& tensor, int64_t first, int64_t count, std::span<float> out);

}  // namespace drafthorse
