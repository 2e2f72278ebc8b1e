// Parts of tensors by rows, in every format: the values are those of the same rows of the whole.

#include "weights/tensor_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/random_weights.h"
#include "weights/derived_checkpoint.h"

namespace drafthorse::test {
namespace {

using testing::HasSubstr;

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  const Status status = dequantise(tensor, 0, tensor.rows(), values);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return values;
}

// One [4, 6, 256] tensor a format.
std::vector<OwnedTensor> every_format() {
  const std::vector<int64_t> shape = {4, 6, 256};
  Random random(3);
  std::vector<OwnedTensor> tensors;
  for (const Format format :
       {Format::q4_0, Format::q4_1, Format::q5_0, Format::q5_1, Format::q8_0, Format::q2_k, Format::q3_k, Format::q4_k,
        Format::q5_k, Format::q6_k, Format::iq4_nl, Format::iq4_xs, Format::mxfp4_blocks}) {
    tensors.push_back(random_blocks(format, shape, random, 1));
  }
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      tensors.push_back(random_mlx(Format::affine, bits, group, Format::f16, shape, random, 1));
    }
  }
  tensors.push_back(random_mlx(Format::mxfp4, 4, 32, Format::u8, shape, random, 1));
  tensors.push_back(random_mlx(Format::mxfp8, 8, 32, Format::u8, shape, random, 1));
  tensors.push_back(random_mlx(Format::nvfp4, 4, 16, Format::u8, shape, random, 1));
  for (const Format format : {Format::f32, Format::f16, Format::bf16}) {
    OwnedTensor& tensor = tensors.emplace_back();
    tensor.shape_and_format.format = format;
    tensor.shape_and_format.shape = shape;
    std::vector<float> values(4 * 6 * 256);
    for (float& value : values) value = random.normal();
    tensor.data = encode_plain(format, values);
  }
  return tensors;
}

TEST(TensorRows, SlicesHaveTheValuesOfTheWhole) {
  for (const OwnedTensor& tensor : every_format()) {
    const TensorView whole = tensor.view();
    const std::vector<float> values = values_of(whole);
    for (int64_t first = 0; first <= 24; ++first) {
      for (const int64_t count : {int64_t{0}, int64_t{1}, 24 - first}) {
        if (first + count > 24) continue;
        const Result<TensorView> slice = slice_rows(whole, first, count);
        ASSERT_TRUE(slice.ok()) << slice.error().message;
        EXPECT_EQ(slice->shape, (std::vector<int64_t>{count, 256}));
        const std::vector<float> expected(values.begin() + first * 256, values.begin() + (first + count) * 256);
        EXPECT_EQ(values_of(*slice), expected) << name(whole.format) << " " << whole.bits;
      }
    }
  }
}

TEST(TensorRows, GatheredRowsKeepTheirValues) {
  const std::vector<RowRange> ranges = {{20, 4}, {0, 1}, {7, 0}, {5, 3}};
  for (const OwnedTensor& tensor : every_format()) {
    const TensorView whole = tensor.view();
    const std::vector<float> values = values_of(whole);
    Result<GatheredTensor> made = gather_rows(whole, ranges, "new");
    ASSERT_TRUE(made.ok());
    const GatheredTensor gathered = std::move(*made);  // moving keeps the view valid
    EXPECT_EQ(gathered.view.name, "new");
    EXPECT_EQ(gathered.view.shape, (std::vector<int64_t>{8, 256}));
    std::vector<float> expected;
    for (const RowRange& range : ranges) {
      expected.insert(expected.end(), values.begin() + range.first * 256,
                      values.begin() + (range.first + range.count) * 256);
    }
    EXPECT_EQ(values_of(gathered.view), expected);
  }
}

TEST(TensorRows, RowsThatAreNotThere) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const OwnedTensor& tensor : every_format()) {
    TensorView whole = tensor.view();
    whole.name = "w";
    for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
             {-1, 1}, {0, -1}, {0, 25}, {25, 0}, {24, 1}, {kMost, 1}, {1, kMost}, {kMost, kMost}}) {
      const Result<TensorView> slice = slice_rows(whole, first, count);
      ASSERT_FALSE(slice.ok());
      EXPECT_THAT(slice.error().message, HasSubstr("tensor \"w\""));
    }
    // Bytes that are fewer than the shape says, in each part.
    for (std::span<const std::byte> TensorView::*part : {&TensorView::data, &TensorView::scales, &TensorView::biases}) {
      if ((whole.*part).empty()) continue;
      TensorView cut = whole;
      cut.*part = (whole.*part).first((whole.*part).size() - 1);
      EXPECT_FALSE(slice_rows(cut, 0, 24).ok());
      EXPECT_TRUE(slice_rows(cut, 0, 23).ok());
    }
    // Rows that are no whole blocks.
    TensorView odd = whole;
    odd.shape = {24, 250};
    if (block_layout(whole.format).elements != 1) {
      EXPECT_FALSE(slice_rows(odd, 0, 1).ok());
    }
    odd.shape = {};
    (void)slice_rows(odd, 0, 1).ok();
  }
}

}  // namespace
}  // namespace drafthorse::test
