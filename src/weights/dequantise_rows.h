#pragma once
// Row decoders behind dequantise(): one a storage format. Private to the room.

#include <cstddef>
#include <cstdint>
#include <span>

#include "weights/tensor.h"

namespace drafthorse {

// The sixteen values of the iq4 formats.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Decodes one block (block_layout(format).bytes at `block`) to block_layout(format).elements values at `out`.
using BlockDecoder = void (*)(const std::byte* block, float* out);
// nullptr when the format is not a GGUF block or super-block format.
BlockDecoder small_block_decoder(Format format);  // blocks of 32
BlockDecoder super_block_decoder(Format format);  // blocks of 256

// Row `row` of an MLX tensor (affine, mxfp4, mxfp8, nvfp4): out has tensor.columns() values.
// check_mlx_storage has accepted the tensor.
void decode_mlx_row(const TensorView& tensor, int64_t row, float* out);
// That bits and group size are ones MLX has, and that data, scales and biases have the bytes that the shape needs.
Status check_mlx_storage(const TensorView& tensor);

}  // namespace drafthorse
