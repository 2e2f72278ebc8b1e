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
  f32, f16, bf16,
  i32, u32, u8, i8, i64, f8_e4m3,                // plain arrays that no matrix product reads directly
  q4_0, q4_1, q5_0, q5_1, q8_0,                  // GGUF, blocks of 32
  q2_k, q3_k, q4_k, q5_k, q6_k,                  // GGUF, super-blocks of 256
  iq4_nl, iq4_xs, mxfp4_blocks,                  // GGUF, table values / E2M1
  affine,                                        // MLX: packed bits + scales + biases, `bits` and `group_size` say which
  mxfp4, mxfp8, nvfp4,                           // MLX: packed E2M1 / E4M3 + uint8 scales, no biases
};
std::string_view name(Format format);

// A borrowed view; the Checkpoint that made it owns the bytes and must outlive it.
struct TensorView {
  std::string name;                   // as in the file, e.g. "blk.0.attn_q.weight"
  Format format = Format::f32;
  int bits = 0, group_size = 0;       // affine, mxfp4, mxfp8, nvfp4 only
  Format scale_format = Format::bf16; // affine: dtype of scales and biases; fp modes: u8
  std::vector<int64_t> shape;         // logical, row-major, outermost first: a linear is [out, in]
  std::span<const std::byte> data, scales, biases;

  int64_t elements() const;           // product of shape
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }          // contiguous axis
  int64_t rows() const { return columns() ? elements() / columns() : 0; }
  size_t bytes() const { return data.size() + scales.size() + biases.size(); }
};

// The exact value of `count` rows of a tensor: out[r * columns + c], fp32. `first + count` <= rows().
// Formulas: docs/architecture.md, "Weight formats" (MLX affine and fp blocks, GGUF blocks).
// Error: unsupported for a format that has no float meaning (i32 …).
Status dequantise(const TensorView& tensor, int64_t first, int64_t count, std::span<float> out);

}  // namespace drafthorse
