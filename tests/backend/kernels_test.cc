// Every weight format on every instruction set of this machine gives the bits of reference_matmul, whatever the number
// of rows, the split over threads and the row's neighbours.

#include "backend/cpu/matmul.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/scheme.h"
#include "support/random_weights.h"

namespace drafthorse {
namespace {

using test::OwnedTensor;
using test::Random;

struct Case {
  std::string name;
  int64_t input_multiple;
  std::function<OwnedTensor(int64_t outputs, int64_t inputs, Random&)> make;
};

OwnedTensor random_floats(Format format, std::vector<int64_t> shape, Random& random) {
  OwnedTensor tensor;
  tensor.shape_and_format.format = format;
  tensor.shape_and_format.shape = shape;
  std::vector<float> values(shape[0] * shape[1]);
  for (float& v : values) v = random.normal();
  tensor.data = test::encode_plain(format, values);
  return tensor;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (Format format : {Format::f32, Format::f16, Format::bf16}) {
    all.push_back({std::string(name(format)), 1,
                   [=](int64_t n, int64_t k, Random& random) { return random_floats(format, {n, k}, random); }});
  }
  auto blocks = [&](Format format, int64_t multiple) {
    all.push_back({std::string(name(format)), multiple, [=](int64_t n, int64_t k, Random& random) {
                     return test::random_blocks(format, {n, k}, random, 0.05);
                   }});
  };
  for (Format format : {Format::q4_0, Format::q4_1, Format::q5_0, Format::q5_1, Format::q8_0, Format::iq4_nl, Format::mxfp4_blocks}) {
    blocks(format, 32);
  }
  for (Format format : {Format::q2_k, Format::q3_k, Format::q4_k, Format::q5_k, Format::q6_k, Format::iq4_xs}) blocks(format, 256);
  auto mlx = [&](Format format, int bits, int group, Format scales, std::string label) {
    all.push_back({label, std::max(group, 32), [=](int64_t n, int64_t k, Random& random) {
                     return test::random_mlx(format, bits, group, scales, {n, k}, random, 0.05);
                   }});
  };
  mlx(Format::mxfp4, 4, 32, Format::u8, "mxfp4");
  mlx(Format::mxfp8, 8, 32, Format::u8, "mxfp8");
  mlx(Format::nvfp4, 4, 16, Format::u8, "nvfp4");
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64, 128}) {
      for (Format scales : {Format::bf16, Format::f16, Format::f32}) {
        mlx(Format::affine, bits, group, scales, fmt::format("affine_{}_{}_{}", bits, group, name(scales)));
      }
    }
  }
  return all;
}

std::vector<float> random_rows(int rows, int64_t inputs, Random& random) {
  std::vector<float> x(rows * inputs);
  for (float& v : x) v = random.normal();
  return x;
}

// The product by `kernels`, in `chunk` blocks at a time and `row_chunk` rows at a time.
std::vector<float> product(const Kernels& kernels, const PackedLinear& linear, const std::vector<float>& x, int rows,
                           int row_chunk, int64_t chunk) {
  Activations activations(linear.inputs, rows, {&linear});
  activations.resize(rows);
  for (int r = 0; r < rows; r++) activations.set_row(kernels, r, x.data() + r * linear.inputs);
  const int64_t ldy = linear.outputs + 3;
  std::vector<float> y(rows * ldy, 12345.0f), packed;
  for (int r = 0; r < rows; r += row_chunk) {
    for (int64_t b = 0; b < linear.blocks(); b += chunk) {
      matmul(kernels, linear, activations, r, std::min(rows, r + row_chunk), y.data() + r * ldy, ldy, b,
             std::min(b + chunk, linear.blocks()));
    }
  }
  for (int r = 0; r < rows; r++) {
    packed.insert(packed.end(), y.begin() + r * ldy, y.begin() + r * ldy + linear.outputs);
    for (int64_t i = linear.outputs; i < ldy; i++) EXPECT_EQ(y[r * ldy + i], 12345.0f) << "written past the last output";
  }
  return packed;
}

std::vector<float> reference(const TensorView& weight, const std::vector<float>& x, int rows, bool fp32 = false) {
  std::vector<float> y(rows * weight.rows());
  Status status = reference_matmul(weight, x.data(), weight.columns(), rows, y.data(), weight.rows(), fp32);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return y;
}

// Where two results differ in their bits (any NaN equals any NaN), for the message; empty when they do not.
std::string difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return "sizes differ";
  for (size_t i = 0; i < a.size(); i++) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], 4) != 0) return fmt::format("at {}: {} and {}", i, a[i], b[i]);
  }
  return {};
}

std::string check(const Case& c, int64_t outputs, int64_t inputs, int rows, Random& random, ThreadPool& pool) {
  OwnedTensor tensor = c.make(outputs, inputs, random);
  Result<PackedLinear> linear = pack(tensor.view(), pool);
  if (!linear) return linear.error().message;
  std::vector<float> x = random_rows(rows, inputs, random), expected = reference(tensor.view(), x, rows);
  for (const Kernels* kernels : available_kernels()) {
    for (int row_chunk : {rows, 1}) {
      std::string found = difference(product(*kernels, *linear, x, rows, row_chunk, 2), expected);
      if (!found.empty()) {
        return fmt::format("{} {} {} x {}, {} rows by {}: {}", kernels->isa, c.name, outputs, inputs, rows, row_chunk, found);
      }
    }
  }
  return {};
}

TEST(Kernels, SayWhichInstructionSetsWereTested) {
  std::string names;
  for (const Kernels* kernels : available_kernels()) names += fmt::format(" {}", kernels->isa);
  fmt::print("instruction sets of this machine:{}\n", names);
  RecordProperty("instruction_sets", names);
  ASSERT_GE(available_kernels().size(), 1u);
  for (const Kernels* kernels : available_kernels()) {
    Result<const Kernels*> selected = select_kernels(kernels->isa);
    ASSERT_TRUE(selected.ok());
    EXPECT_EQ(*selected, kernels);
  }
  EXPECT_EQ(*select_kernels("auto"), available_kernels().back());
  EXPECT_EQ(select_kernels("mmx").error().kind, ErrorKind::invalid_argument);
}

TEST(Kernels, EqualTheReferenceInEveryFormatAndRowCount) {
  ThreadPool pool(2);
  Random random(1);
  for (const Case& c : cases()) {
    for (int rows = 1; rows <= 17; rows++) {
      EXPECT_EQ(check(c, 19, c.input_multiple == 1 ? 37 : std::max<int64_t>(c.input_multiple, 64), rows, random, pool), "");
    }
  }
}

TEST(Kernels, EqualTheReferenceOverSeveralSegments) {
  ThreadPool pool(2);
  Random random(2);
  for (const Case& c : cases()) {
    for (int64_t inputs : {96, 512, 768, 1536}) {
      if (inputs % c.input_multiple != 0) continue;
      for (int rows : {1, 2, 5}) EXPECT_EQ(check(c, 33, inputs, rows, random, pool), "");
    }
  }
}

TEST(Kernels, MoreRowsThanATile) {
  ThreadPool pool(2);
  Random random(3);
  for (const Case& c : cases()) {
    if (c.name != "q4_k" && c.name != "affine_4_64_bf16" && c.name != "q6_k" && c.name != "bf16" && c.name != "q8_0") continue;
    EXPECT_EQ(check(c, 40, 768, 259, random, pool), "");
  }
}

}  // namespace
}  // namespace drafthorse
