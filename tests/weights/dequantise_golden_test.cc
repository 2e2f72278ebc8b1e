// dequantise() against tables made by the formats' own packages (tools/make_dequant_goldens.py), bit by bit.

#include <bit>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/mapped_file.h"
#include "weights/float_formats.h"
#include "weights/safetensors.h"
#include "weights/tensor.h"

namespace drafthorse {
namespace {

// The tensors of one golden file by name; the file outlives them.
struct Golden {
  MappedFile file;
  std::map<std::string, TensorView> tensors;
};

Golden read_golden(const std::string& name) {
  auto file = MappedFile::open(std::filesystem::path(DRAFTHORSE_TEST_DATA) / "dequant" / name);
  if (!file) throw std::runtime_error(file.error().message);
  auto tensors = parse_safetensors(file->bytes());
  if (!tensors) throw std::runtime_error(tensors.error().message);
  Golden golden{std::move(*file), {}};
  for (TensorView& tensor : *tensors) golden.tensors[tensor.name] = std::move(tensor);
  return golden;
}

// Compares every row, read all at once and one by one.
void expect_values(const TensorView& tensor, const TensorView& expected) {
  ASSERT_EQ(tensor.shape, expected.shape);
  std::vector<float> all(static_cast<size_t>(tensor.elements())), row(static_cast<size_t>(tensor.columns()));
  const Status status = dequantise(tensor, 0, tensor.rows(), all);
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (int64_t r = 0; r < tensor.rows(); ++r) {
    ASSERT_TRUE(dequantise(tensor, r, 1, row).ok());
    for (int64_t c = 0; c < tensor.columns(); ++c) {
      const int64_t i = r * tensor.columns() + c;
      const auto bits = load<uint32_t>(expected.data.data() + 4 * i);
      const auto index = static_cast<size_t>(i);
      ASSERT_EQ(std::bit_cast<uint32_t>(all[index]), bits)
          << tensor.name << " row " << r << " column " << c << ": " << all[index] << " " << std::bit_cast<float>(bits);
      ASSERT_EQ(std::bit_cast<uint32_t>(row[static_cast<size_t>(c)]), bits);
    }
  }
}

constexpr std::pair<const char*, Format> kBlockFormats[] = {
    {"q4_0", Format::q4_0},         {"q4_1", Format::q4_1}, {"q5_0", Format::q5_0},     {"q5_1", Format::q5_1},
    {"q8_0", Format::q8_0},         {"q2_k", Format::q2_k}, {"q3_k", Format::q3_k},     {"q4_k", Format::q4_k},
    {"q5_k", Format::q5_k},         {"q6_k", Format::q6_k}, {"iq4_nl", Format::iq4_nl}, {"iq4_xs", Format::iq4_xs},
    {"mxfp4", Format::mxfp4_blocks}};

class GgufGolden : public testing::TestWithParam<std::pair<const char*, Format>> {};

TEST_P(GgufGolden, EqualsTheTable) {
  const Golden golden = read_golden("gguf.safetensors");
  const auto [type, format] = GetParam();
  TensorView tensor = golden.tensors.at(std::string(type) + ".blocks");
  const TensorView& expected = golden.tensors.at(std::string(type) + ".values");
  tensor.format = format;
  tensor.shape = expected.shape;
  expect_values(tensor, expected);
}

INSTANTIATE_TEST_SUITE_P(AllBlocks, GgufGolden, testing::ValuesIn(kBlockFormats),
                         [](const auto& info) { return std::string(info.param.first); });

struct MlxCase {
  std::string name;
  Format mode;
  int bits, group_size;
};

std::vector<MlxCase> mlx_cases() {
  std::vector<MlxCase> cases = {
      {"mxfp4", Format::mxfp4, 4, 32}, {"mxfp8", Format::mxfp8, 8, 32}, {"nvfp4", Format::nvfp4, 4, 16}};
  const auto affine = [&](int bits, int group_size, const char* dtype) {
    cases.push_back({"affine_" + std::to_string(bits) + "_" + std::to_string(group_size) + "_" + dtype, Format::affine,
                     bits, group_size});
  };
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group_size : {32, 64, 128}) affine(bits, group_size, "bf16");
  }
  for (const char* dtype : {"f16", "f32"}) {
    affine(4, 64, dtype);
    affine(8, 32, dtype);
  }
  return cases;
}

class MlxGolden : public testing::TestWithParam<MlxCase> {};

TEST_P(MlxGolden, EqualsTheTable) {
  const Golden golden = read_golden("mlx.safetensors");
  const MlxCase& c = GetParam();
  TensorView tensor = golden.tensors.at(c.name + ".weight");
  const TensorView &scales = golden.tensors.at(c.name + ".scales"), &expected = golden.tensors.at(c.name + ".values");
  tensor.format = c.mode;
  tensor.bits = c.bits;
  tensor.group_size = c.group_size;
  tensor.scale_format = scales.format;
  tensor.shape = expected.shape;
  tensor.scales = scales.data;
  if (c.mode == Format::affine) tensor.biases = golden.tensors.at(c.name + ".biases").data;
  expect_values(tensor, expected);
}

INSTANTIATE_TEST_SUITE_P(AllModes, MlxGolden, testing::ValuesIn(mlx_cases()),
                         [](const auto& info) { return info.param.name; });

// The golden files hold every case that the tests above read, and no case that nobody reads.
TEST(Golden, FilesHoldExactlyTheTestedCases) {
  EXPECT_EQ(read_golden("gguf.safetensors").tensors.size(), 2 * std::size(kBlockFormats));
  EXPECT_EQ(read_golden("mlx.safetensors").tensors.size(), 4 * (mlx_cases().size() - 3) + 3 * 3);
}

}  // namespace
}  // namespace drafthorse
