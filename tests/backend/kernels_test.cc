// Every weight format on every instruction set of this machine gives the bits of reference_matmul, whatever the number
// of rows, the split over threads and the row's neighbours.

#include "backend/cpu/matmul.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/scheme.h"
#include "support/digest.h"
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
    all.push_back({std::string(name(format)), 1, [=](int64_t n, int64_t k, Random& random) {
                     return random_floats(format, {n, k}, random);
                   }});
  }
  auto blocks = [&](Format format, int64_t multiple) {
    all.push_back({std::string(name(format)), multiple, [=](int64_t n, int64_t k, Random& random) {
                     return test::random_blocks(format, {n, k}, random, 0.05);
                   }});
  };
  for (Format format :
       {Format::q4_0, Format::q4_1, Format::q5_0, Format::q5_1, Format::q8_0, Format::iq4_nl, Format::mxfp4_blocks}) {
    blocks(format, 32);
  }
  for (Format format : {Format::q2_k, Format::q3_k, Format::q4_k, Format::q5_k, Format::q6_k, Format::iq4_xs})
    blocks(format, 256);
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
    for (int64_t i = linear.outputs; i < ldy; i++)
      EXPECT_EQ(y[r * ldy + i], 12345.0f) << "written past the last output";
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
        return fmt::format("{} {} {} x {}, {} rows by {}: {}", kernels->isa, c.name, outputs, inputs, rows, row_chunk,
                           found);
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

#if defined(__aarch64__) && defined(__linux__)
TEST(Kernels, NeonIsThereExactlyWhereTheProcessorHasDotProducts) {
  const bool has = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
  const Result<const Kernels*> neon = select_kernels("neon");
  ASSERT_EQ(neon.ok(), has);
  if (has) {
    EXPECT_EQ(isa_name(**neon), "neon");
    EXPECT_EQ(*select_kernels("auto"), *neon);
  } else {
    EXPECT_EQ(neon.error().kind, ErrorKind::unsupported);
  }
}
#endif

// Other tests compare what runs on one machine; this one compares machines. The number was computed on x86-64 and is the
// digest of products whose inputs come from integer and fp64 operations alone.
TEST(Kernels, GiveTheSameBitsOnEveryArchitecture) {
  ThreadPool pool(1);
  const int rows = 5;
  for (const Kernels* kernels : available_kernels()) {
    Random random(9);
    uint64_t found = test::digest({});
    for (const Case& c : cases()) {
      if (c.input_multiple == 1) continue;  // their weights are normal numbers, which take a mathematics library
      const int64_t inputs = std::max<int64_t>(c.input_multiple, 64) * 3;
      const OwnedTensor tensor = c.make(19, inputs, random);
      const Result<PackedLinear> linear = pack(tensor.view(), pool);
      ASSERT_TRUE(linear.ok());
      std::vector<float> x(rows * inputs);
      for (float& v : x) v = static_cast<float>(random.uniform() * 4 - 2);
      found = test::digest(product(*kernels, *linear, x, rows, rows, 2), found);
    }
    EXPECT_EQ(found, 0x7f637d1e1a3c0ffcu) << kernels->isa;
  }
}

TEST(Kernels, EqualTheReferenceInEveryFormatAndRowCount) {
  ThreadPool pool(2);
  Random random(1);
  for (const Case& c : cases()) {
    for (int rows = 1; rows <= 17; rows++) {
      EXPECT_EQ(check(c, 19, c.input_multiple == 1 ? 37 : std::max<int64_t>(c.input_multiple, 64), rows, random, pool),
                "");
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
    if (c.name != "q4_k" && c.name != "affine_4_64_bf16" && c.name != "q6_k" && c.name != "bf16" && c.name != "q8_0")
      continue;
    EXPECT_EQ(check(c, 40, 768, 259, random, pool), "");
  }
}

TEST(Kernels, TheSplitOverThreadsDoesNotMatter) {
  ThreadPool one(1), three(3);
  Random random(4);
  OwnedTensor q = test::random_blocks(Format::q4_k, {100, 512}, random, 0.05),
              k = test::random_blocks(Format::q6_k, {50, 512}, random, 0.05);
  Result<PackedLinear> a = pack(q.view(), one), b = pack(k.view(), three);
  ASSERT_TRUE(a.ok() && b.ok());
  const int rows = 3;
  std::vector<float> x = random_rows(rows, 512, random);
  for (const Kernels* kernels : available_kernels()) {
    Activations activations(512, rows, {&*a, &*b});
    activations.resize(rows);
    for (int r = 0; r < rows; r++) activations.set_row(*kernels, r, x.data() + r * 512);
    std::vector<float> y(rows * 100), z(rows * 50);
    const MatmulJob jobs[] = {{&*a, y.data(), 100}, {&*b, z.data(), 50}};
    ASSERT_EQ(blocks(jobs), 7 + 4);
    three.parallel_for(blocks(jobs), 1, [&](int, int64_t begin, int64_t end) {
      matmul(*kernels, jobs, activations, 0, rows, begin, end);
    });
    EXPECT_EQ(difference(y, reference(q.view(), x, rows)), "");
    EXPECT_EQ(difference(z, reference(k.view(), x, rows)), "");
  }
}

// scale * (code - zero) + bias is the value that dequantise defines, to fp32 rounding.
TEST(Scheme, AgreesWithDequantise) {
  Random random(5);
  for (const Case& c : cases()) {
    const int64_t inputs = std::max<int64_t>(c.input_multiple, 64), outputs = 6;
    OwnedTensor tensor = c.make(outputs, inputs, random);
    Result<Scheme> scheme = scheme_of(tensor.view());
    ASSERT_TRUE(scheme.ok()) << scheme.error().message;
    std::vector<float> values(outputs * inputs), row(inputs);
    ASSERT_TRUE(dequantise(tensor.view(), 0, outputs, values).ok());
    std::vector<int16_t> codes(inputs);
    std::vector<float> scales(inputs / std::max(1, scheme->group)), biases(scales.size());
    for (int64_t o = 0; o < outputs; o++) {
      if (scheme->group == 0) {
        read_float_row(tensor.view(), o, row);
      } else {
        read_row(tensor.view(), *scheme, o, codes, scales, biases);
      }
      for (int64_t k = 0; k < inputs; k++) {
        const float expected = values[o * inputs + k];
        if (scheme->group == 0) {
          EXPECT_EQ(row[k], expected) << c.name;
          continue;
        }
        const size_t g = k / scheme->group;
        const double product = static_cast<double>(scales[g]) * (codes[k] - scheme->zero),
                     bias = scheme->biased ? biases[g] : 0;
        // dequantise may round the product and the sum: half an ulp of each.
        const double bound = (std::fabs(product) + std::fabs(product + bias)) * 0x1p-24 + 1e-44;
        EXPECT_NEAR(product + bias, expected, bound) << c.name << " row " << o << " input " << k;
      }
    }
  }
}

// Rows that random normals do not show: zeros, one huge value, tiny values, infinities.
std::vector<float> awkward_row(int64_t inputs, int kind, Random& random) {
  std::vector<float> x(inputs);
  for (float& v : x) {
    switch (kind) {
      case 0: v = 0; break;
      case 1: v = random.below(64) == 0 ? random.normal() * 1e20f : random.normal(); break;
      case 2: v = random.normal() * 1e-39f; break;
      case 3: v = random.below(3) == 0 ? random.normal() : 0.0f; break;
      case 4: v = (static_cast<float>(random.below(255)) - 127) * 0.5f; break;  // exact halves: ties
      default: v = random.below(200) == 0 ? std::numeric_limits<float>::infinity() : random.normal();
    }
  }
  return x;
}

TEST(Kernels, AwkwardRows) {
  ThreadPool pool(1);
  const std::vector<Case> all = cases();
  rc::check("awkward inputs give the reference's bits", [&] {
    const Case& c = all[*rc::gen::inRange<size_t>(0, all.size())];
    Random random(*rc::gen::arbitrary<uint64_t>());
    const int64_t inputs = std::max<int64_t>(c.input_multiple, 64) * *rc::gen::inRange<int64_t>(1, 4);
    const int rows = *rc::gen::inRange(1, 10);
    OwnedTensor tensor = c.make(*rc::gen::inRange<int64_t>(1, 40), inputs, random);
    Result<PackedLinear> linear = pack(tensor.view(), pool);
    RC_ASSERT(linear.ok());
    std::vector<float> x;
    for (int r = 0; r < rows; r++) {
      std::vector<float> row = awkward_row(inputs, random.below(6), random);
      x.insert(x.end(), row.begin(), row.end());
    }
    std::vector<float> expected = reference(tensor.view(), x, rows);
    for (const Kernels* kernels : available_kernels()) {
      RC_ASSERT(difference(product(*kernels, *linear, x, rows, rows, 3), expected) == "");
    }
  });
}

// Any bytes at all: scales that are negative, zero, subnormal or huge.
TEST(Kernels, AnyBytes) {
  ThreadPool pool(1);
  rc::check("any block bytes give the reference's bits", [&] {
    const Format format = *rc::gen::element(Format::q4_0, Format::q4_1, Format::q5_0, Format::q5_1, Format::q8_0,
                                            Format::iq4_nl, Format::q2_k, Format::q3_k, Format::q4_k, Format::q5_k,
                                            Format::q6_k, Format::iq4_xs, Format::mxfp4_blocks);
    Random random(*rc::gen::arbitrary<uint64_t>());
    OwnedTensor tensor = test::random_blocks(format, {18, 256}, random, 0.05);
    tensor.data = test::random_bytes(random, tensor.data.size());
    Result<PackedLinear> linear = pack(tensor.view(), pool);
    if (!linear) {  // the one byte of 256 that is a NaN
      RC_ASSERT(format == Format::mxfp4_blocks);
      RC_DISCARD("NaN scale");
    }
    const int rows = *rc::gen::inRange(1, 9);
    std::vector<float> x = random_rows(rows, 256, random), expected = reference(tensor.view(), x, rows);
    for (const Kernels* kernels : available_kernels()) {
      RC_ASSERT(difference(product(*kernels, *linear, x, rows, rows, 3), expected) == "");
    }
  });
}

// The quantised product is close to the exact one: int8 activations cost about 0.5 % of the norm.
TEST(Scheme, QuantisedActivationsAreClose) {
  Random random(6);
  OwnedTensor tensor = test::random_blocks(Format::q6_k, {64, 1024}, random, 0.05);
  std::vector<float> x = random_rows(4, 1024, random);
  std::vector<float> quantised = reference(tensor.view(), x, 4), exact = reference(tensor.view(), x, 4, true);
  double error = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); i++) {
    error += std::pow(quantised[i] - exact[i], 2);
    norm += std::pow(exact[i], 2);
  }
  EXPECT_LT(std::sqrt(error / norm), 0.01);
  EXPECT_GT(error, 0);
}

TEST(Pack, ErrorsNameTheTensorAndTheFault) {
  ThreadPool pool(1);
  Random random(7);
  auto message = [&](OwnedTensor tensor, auto change) {
    tensor.shape_and_format.name = "blk.0.attn_q.weight";
    change(tensor);
    Result<PackedLinear> linear = pack(tensor.view(), pool);
    EXPECT_FALSE(linear.ok());
    return linear ? std::string() : linear.error().message;
  };
  OwnedTensor q4 = test::random_blocks(Format::q4_0, {16, 64}, random, 0.05);
  OwnedTensor mlx = test::random_mlx(Format::affine, 4, 64, Format::bf16, {16, 64}, random, 0.05);
  using testing::HasSubstr;
  EXPECT_THAT(message(q4, [](OwnedTensor& t) { t.data.pop_back(); }),
              testing::AllOf(HasSubstr("blk.0.attn_q.weight"), HasSubstr("575"), HasSubstr("576")));
  EXPECT_THAT(message(q4, [](OwnedTensor& t) { t.shape_and_format.shape = {16, 60}; }), HasSubstr("multiple of 32"));
  EXPECT_THAT(message(q4, [](OwnedTensor& t) { t.shape_and_format.format = Format::i32; }), HasSubstr("i32"));
  EXPECT_THAT(message(mlx, [](OwnedTensor& t) { t.shape_and_format.bits = 7; }), HasSubstr("7 bits"));
  EXPECT_THAT(message(mlx, [](OwnedTensor& t) { t.shape_and_format.group_size = 48; }), HasSubstr("48"));
  EXPECT_THAT(message(mlx, [](OwnedTensor& t) { t.biases.clear(); }), HasSubstr("biases"));
  OwnedTensor fp8 = test::random_mlx(Format::mxfp8, 8, 32, Format::u8, {16, 64}, random, 0.05);
  EXPECT_THAT(message(fp8, [](OwnedTensor& t) { t.data[5] = std::byte{0x7f}; }), HasSubstr("NaN"));
}

// A packed matrix takes little more memory than its source.
TEST(Pack, SizesStayNearTheSource) {
  ThreadPool pool(1);
  Random random(8);
  for (const Case& c : cases()) {
    OwnedTensor tensor = c.make(32, 512, random);
    Result<PackedLinear> linear = pack(tensor.view(), pool);
    ASSERT_TRUE(linear.ok());
    EXPECT_LE(static_cast<double>(linear->bytes()), 1.04 * static_cast<double>(tensor.view().bytes())) << c.name;
  }
}

}  // namespace
}  // namespace drafthorse
