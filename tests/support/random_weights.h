#pragma once
// Random tensors in any storage format, reproducible from a seed.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/byte_writer.h"
#include "weights/float_formats.h"
#include "weights/tensor.h"

namespace drafthorse::test {

// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // A generator of its own for each name, so that tensors do not depend on the order they are made in.
  Random(uint64_t seed, std::string_view name) : state_(seed) {
    for (const char c : name) state_ = (state_ ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
    next();
  }
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  float normal() {
    const double u = 1 - uniform(), v = uniform();
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  }
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }

 private:
  uint64_t state_;
};

// A tensor that owns its bytes; view() borrows them.
struct OwnedTensor {
  TensorView shape_and_format;  // spans unset
  Bytes data, scales, biases;
  TensorView view() const {
    TensorView v = shape_and_format;
    v.data = data;
    v.scales = scales;
    v.biases = biases;
    return v;
  }
};

inline Bytes random_bytes(Random& random, size_t count) {
  Bytes bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next() >> 56);
  return bytes;
}

inline void put_f16(std::byte* at, double value) {
  const uint16_t bits = float_to_f16(static_cast<float>(value));
  std::memcpy(at, &bits, sizeof bits);
}

// f32, f16 or bf16 values as bytes.
inline Bytes encode_plain(Format format, std::span<const float> values) {
  Bytes bytes;
  for (const float value : values) {
    if (format == Format::f32) {
      append(bytes, value);
    } else if (format == Format::f16) {
      append(bytes, float_to_f16(value));
    } else if (format == Format::bf16) {
      append(bytes, float_to_bf16(value));
    } else {
      throw std::invalid_argument("not a plain float format");
    }
  }
  return bytes;
}

// Where a GGUF block keeps its f16 scale and minimum, and the minimum per scale that centres the values.
struct BlockFields {
  int scale = 0, minimum = -1;
  double minimum_per_scale = 0;
};

inline BlockFields block_fields(Format format) {
  switch (format) {
    case Format::q4_1: return {0, 2, -7.5};
    case Format::q5_1: return {0, 2, -15.5};
    case Format::q2_k: return {80, 82, 1.5};
    case Format::q3_k: return {108};
    case Format::q4_k: return {0, 2, 7.5};
    case Format::q5_k: return {0, 2, 15.5};
    case Format::q6_k: return {208};
    default: return {0};
  }
}

inline double rms(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.elements()));
  if (Status status = dequantise(view, 0, view.rows(), values); !status)
    throw std::runtime_error(status.error().message);
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return values.empty() ? 1 : std::sqrt(sum / static_cast<double>(values.size()));
}

// Random GGUF blocks whose values have about the root mean square `size`; block scales vary by a factor of 3.
inline OwnedTensor random_blocks(Format format, std::vector<int64_t> shape, Random& random, double size) {
  OwnedTensor tensor;
  tensor.shape_and_format.format = format;
  tensor.shape_and_format.shape = std::move(shape);
  const Result<size_t> count = byte_count(format, tensor.shape_and_format.shape);
  if (!count) throw std::invalid_argument(count.error().message);
  tensor.data = random_bytes(random, *count);
  const size_t block = static_cast<size_t>(block_layout(format).bytes), blocks = *count / block;
  const BlockFields fields = block_fields(format);
  std::vector<double> factors(blocks);
  for (double& factor : factors) factor = 0.5 + random.uniform();
  const auto set_scales = [&](double scale) {
    for (size_t b = 0; b < blocks; ++b) {
      std::byte* bytes = tensor.data.data() + b * block;
      if (format == Format::mxfp4_blocks) {
        bytes[0] = static_cast<std::byte>(127 + static_cast<int>(std::lround(std::log2(scale * factors[b]))));
        continue;
      }
      put_f16(bytes + fields.scale, scale * factors[b]);
      if (fields.minimum >= 0) put_f16(bytes + fields.minimum, scale * factors[b] * fields.minimum_per_scale);
    }
  };
  set_scales(1);
  set_scales(size / rms(tensor.view()));
  return tensor;
}

// A random MLX tensor (affine with any bits and group size, or a floating-point mode) of root mean square about `size`.
inline OwnedTensor random_mlx(Format mode, int bits, int group_size, Format scale_format, std::vector<int64_t> shape,
                              Random& random, double size) {
  OwnedTensor tensor;
  TensorView& view = tensor.shape_and_format;
  view.format = mode;
  view.bits = bits;
  view.group_size = group_size;
  view.scale_format = mode == Format::affine ? scale_format : Format::u8;
  view.shape = std::move(shape);
  const int64_t count = view.elements(), groups = count / group_size;
  tensor.data = random_bytes(random, static_cast<size_t>(count / 8 * bits));
  if (mode == Format::mxfp8) {
    for (std::byte& b : tensor.data) {
      if ((b & std::byte{0x7F}) == std::byte{0x7F}) b ^= std::byte{1};  // no NaN
    }
  }
  std::vector<float> scales, biases;
  const double levels = (1 << bits) - 1;
  for (int64_t g = 0; g < groups; ++g) {
    const double factor = (0.5 + random.uniform()) * (random.below(8) == 0 ? -1 : 1);
    scales.push_back(static_cast<float>(factor * size / levels * 3.3));
    biases.push_back(static_cast<float>(-0.5 * levels * scales.back()));
  }
  if (mode == Format::affine) {
    tensor.scales = encode_plain(scale_format, scales);
    tensor.biases = encode_plain(scale_format, biases);
    return tensor;
  }
  // About 2^-5 for E8M0 and for E4M3 alike; values of E4M3 elements are far larger than those of E2M1.
  const double unit = mode == Format::mxfp8 ? 130 : 3.0;
  for (int64_t g = 0; g < groups; ++g) {
    const double scale = size / unit * (0.5 + random.uniform());
    if (mode == Format::nvfp4) {
      const int exponent = std::clamp(static_cast<int>(std::floor(std::log2(scale))) + 7, 0, 14);
      tensor.scales.push_back(static_cast<std::byte>(exponent << 3 | random.below(8)));
    } else {
      tensor.scales.push_back(static_cast<std::byte>(127 + static_cast<int>(std::lround(std::log2(scale)))));
    }
  }
  return tensor;
}

}  // namespace drafthorse::test
