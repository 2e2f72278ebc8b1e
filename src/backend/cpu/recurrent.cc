#include "backend/cpu/recurrent.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/backend.h"

namespace drafthorse::cpu {
namespace {

constexpr int kMostHeads = 1 << 12, kMostDim = 1 << 12, kMostKernel = 16;
constexpr int kMostBlocks = 1 << 20;

}  // namespace

int64_t DeltaShape::history() const { return tape_start() + kMostTentative * tape_row(); }

Result<DeltaShape> delta_shape(const DeltaNet& part) {
  auto within = [](int value, int most) { return value > 0 && value <= most; };
  if (!within(part.key_heads, kMostHeads) || !within(part.value_heads, kMostHeads) ||
      part.value_heads % part.key_heads != 0 || !within(part.key_dim, kMostDim) || !within(part.value_dim, kMostDim) ||
      part.value_dim % kStripe != 0 || !within(part.kernel, kMostKernel)) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("a gated delta rule of {} key heads of {} and {} value heads of {} with a convolution over "
                    "{} rows; value heads must be a multiple of key heads, their width one of {}",
                    part.key_heads, part.key_dim, part.value_heads, part.value_dim, part.kernel, kStripe),
        ""};
  }
  return DeltaShape{part.key_heads, part.value_heads, part.key_dim, part.value_dim, part.kernel, part.tiled_heads};
}

size_t largest_record(const DeltaShape& shape) {
  return size_t(std::max<int64_t>(int64_t(shape.key_dim) * kStripe, shape.history())) * sizeof(float);
}

Result<RecurrentLayout> recurrent_layout(const std::vector<DeltaShape>& shapes, size_t block_bytes) {
  RecurrentLayout layout;
  size_t end = 0;
  auto place = [&](int64_t floats) {
    const size_t bytes = size_t(floats) * sizeof(float);
    if (end % block_bytes + bytes > block_bytes) end += block_bytes - end % block_bytes;
    const size_t at = end;
    end += bytes;
    return at;
  };
  for (const DeltaShape& shape : shapes) {
    RecurrentLayout::Layer& layer = layout.layers.emplace_back();
    layer.shape = shape;
    for (int s = 0; s < shape.value_heads * shape.stripes(); ++s) {
      layer.stripes.push_back(place(int64_t(shape.key_dim) * kStripe));
    }
    for (int h = 0; h < shape.key_heads; ++h) layer.histories.push_back(place(shape.history()));
    if (end / block_bytes >= kMostBlocks) {
      return Error{ErrorKind::unsupported,
                   fmt::format("recurrent states of {} layers take more than {} bytes a sequence", shapes.size(), end),
                   ""};
    }
  }
  layout.blocks = int((end + block_bytes - 1) / block_bytes);
  return layout;
}

}  // namespace drafthorse::cpu
