#include "backend/cpu/row_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/half.h"
#include "core/math.h"

namespace drafthorse::cpu {
namespace {

using Floats = std::vector<float>;

Floats random_floats(std::mt19937& random, size_t n, float scale) {
  std::normal_distribution<float> normal(0, scale);
  Floats x(n);
  for (float& v : x) v = normal(random);
  return x;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<const RowKernels*> other_kernels() {
  std::vector<const RowKernels*> found;
  for (const char* isa : {"avx2", "avx512", "neon"}) {
    if (const RowKernels* kernels = row_kernels(isa)) found.push_back(kernels);
  }
  return found;
}

// f(kernels, x) changes x; every table must do it with the same bits.
template <class F>
void expect_equal_tables(const Floats& x, F f) {
  Floats expected = x;
  f(*row_kernels("portable"), expected);
  for (const RowKernels* kernels : other_kernels()) {
    Floats got = x;
    f(*kernels, got);
    EXPECT_TRUE(same_bits(got, expected)) << kernels->isa << ", " << x.size() << " elements";
  }
}

TEST(RowKernels, EveryInstructionSetGivesTheSameBits) {
  std::mt19937 random(1);
  for (int n : {2, 20, 64, 80, 96, 128, 576, 1001 * 2}) {
    const Floats x = random_floats(random, n, 3), w = random_floats(random, n, 1);
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.rms_norm(y.data(), w.data(), 1e-5f, n, y.data()); });
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.silu_times(y.data(), w.data(), n); });
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.gelu_times(y.data(), w.data(), n); });
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.add(y.data(), w.data(), n); });
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.multiply(y.data(), 0.3f, n); });
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.softcap(y.data(), 2.0f, n); });
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.rope_half(y.data(), w.data(), &w[n / 2], n); });
    expect_equal_tables(x,
                        [&](const RowKernels& k, Floats& y) { k.rope_interleaved(y.data(), w.data(), &w[n / 2], n); });
    for (int stride : {1, 64}) {
      std::vector<uint16_t> expected(size_t(n) * stride), got(expected);
      row_kernels("portable")->to_half(x.data(), n, stride, expected.data());
      for (int i = 0; i < n; ++i) ASSERT_EQ(expected[size_t(i) * stride], float_to_half(x[i]));
      for (const RowKernels* kernels : other_kernels()) {
        kernels->to_half(x.data(), n, stride, got.data());
        EXPECT_EQ(got, expected) << kernels->isa;
      }
    }
  }
}

TEST(RowKernels, GatesAndSumsGiveTheSameBits) {
  std::mt19937 random(4);
  for (int n : {1, 16, 20, 128, 575}) {
    const Floats x = random_floats(random, n, 3), w = random_floats(random, n, 1);
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.sigmoid_times(y.data(), w.data(), n, y.data()); });
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.add_scaled(y.data(), w.data(), 0.3f, n); });
    expect_equal_tables(x, [&](const RowKernels& k, Floats& y) { k.l2_norm(y.data(), 0.25f, n); });
    Floats gated(n), sum = x, normed = x;
    row_kernels("portable")->sigmoid_times(x.data(), w.data(), n, gated.data());
    row_kernels("portable")->add_scaled(sum.data(), w.data(), 0.3f, n);
    row_kernels("portable")->l2_norm(normed.data(), 0.25f, n);
    const float r = 1.0f / std::sqrt(sum_squares32(x) + 1e-6f) * 0.25f;
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(gated[i], sigmoid_fixed(x[i]) * w[i]);
      EXPECT_EQ(sum[i], std::fma(0.3f, w[i], x[i]));
      EXPECT_EQ(normed[i], x[i] * r);
    }
  }
}

TEST(RowKernels, NormIsTheFormula) {
  std::mt19937 random(2);
  const Floats x = random_floats(random, 576, 2), w = random_floats(random, 576, 1);
  Floats y(576);
  row_kernels("portable")->rms_norm(x.data(), w.data(), 1e-5f, 576, y.data());
  double squares = 0;
  for (float v : x) squares += double(v) * v;
  for (int i = 0; i < 576; ++i) {
    EXPECT_NEAR(y[i], x[i] / std::sqrt(squares / 576 + 1e-5) * w[i], 2e-6 * (1 + std::abs(y[i])));
  }
}

// Random keys, values and queries for one segment.
struct Segment {
  Segment(std::mt19937& random, int head_dim, int queries) : q(random_floats(random, size_t(queries) * head_dim, 1)) {
    auto halves = [&](std::vector<uint16_t>& out) {
      for (float v : random_floats(random, size_t(kSoftmaxSegment) * head_dim, 1)) out.push_back(float_to_half(v));
    };
    halves(keys), halves(values);
    task.head_dim = head_dim;
    task.queries = queries;
    const size_t block = size_t(kKvBlock) * head_dim;
    for (int b = 0; b < kSoftmaxBlocks; ++b) task.keys[b] = &keys[b * block], task.values[b] = &values[b * block];
    for (int i = 0; i < queries; ++i) task.q[i] = &q[size_t(i) * head_dim];
  }
  float key(int j, int d) const { return half_to_float(task.keys[j / kKvBlock][size_t(d) * kKvBlock + j % kKvBlock]); }
  float value(int j, int d) const {
    return half_to_float(task.values[j / kKvBlock][size_t(j % kKvBlock) * task.head_dim + d]);
  }
  // [queries][max, sum, out...]
  std::vector<Floats> run(const RowKernels& kernels) const {
    std::vector<Softmax> results(task.queries);
    std::vector<Floats> out(task.queries, Floats(task.head_dim));
    for (int i = 0; i < task.queries; ++i) results[i].out = out[i].data();
    kernels.segment(task, results.data());
    for (int i = 0; i < task.queries; ++i) out[i].insert(out[i].begin(), {results[i].max, results[i].sum});
    return out;
  }
  Floats q;
  std::vector<uint16_t> keys, values;
  SegmentTask task;
};

TEST(Attention, SegmentIsTheSoftmaxAndTheSameOnEveryInstructionSet) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 120; ++trial) {
    const int dims[] = {20, 32, 64, 80, 96, 128, 256};
    const int head_dim = dims[random() % 7], queries = 1 + int(random() % 13);
    Segment segment(random, head_dim, queries);
    segment.task.softcap = trial % 3 == 0 ? 5.0f : 0.0f;
    for (float& q : segment.q) q *= 1 / std::sqrt(float(head_dim));
    for (int i = 0; i < queries; ++i) {
      segment.task.first[i] = trial % 2 ? 0 : int(random() % kSoftmaxSegment);
      segment.task.last[i] = segment.task.first[i] + 1 + int(random() % (kSoftmaxSegment - segment.task.first[i]));
    }
    const std::vector<Floats> expected = segment.run(*row_kernels("portable"));
    for (const RowKernels* kernels : other_kernels()) {
      const std::vector<Floats> got = segment.run(*kernels);
      for (int i = 0; i < queries; ++i)
        ASSERT_TRUE(same_bits(got[i], expected[i])) << kernels->isa << " trial " << trial;
    }
    for (int i = 0; i < queries; ++i) {
      double sum = 0;
      std::vector<double> out(head_dim);
      for (int j = segment.task.first[i]; j < segment.task.last[i]; ++j) {
        double score = 0;
        for (int d = 0; d < head_dim; ++d) score += double(segment.task.q[i][d]) * segment.key(j, d);
        if (segment.task.softcap > 0) score = 5 * std::tanh(score / 5);
        const double p = std::exp(score - expected[i][0]);
        sum += p;
        for (int d = 0; d < head_dim; ++d) out[d] += p * segment.value(j, d);
      }
      ASSERT_NEAR(expected[i][1], sum, 1e-4 * sum);
      for (int d = 0; d < head_dim; ++d) ASSERT_NEAR(expected[i][2 + d], out[d], 1e-4 * sum);
    }
  }
}

// What lies beyond a query's positions, a NaN even, cannot reach it, and neither can the other queries of the task.
TEST(Attention, AQueryDependsOnItsOwnPositionsOnly) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 40; ++trial) {
    const int queries = 2 + int(random() % 10);
    Segment segment(random, 64, queries);
    for (int i = 0; i < queries; ++i) {
      segment.task.first[i] = trial % 2 ? int(random() % 100) : 0;
      segment.task.last[i] = segment.task.first[i] + 1 + int(random() % 150);
    }
    const std::vector<Floats> together = segment.run(*row_kernels("portable"));
    for (int i = 0; i < queries; ++i) {
      Segment alone = segment;
      const size_t block = size_t(kKvBlock) * 64;
      for (int b = 0; b < kSoftmaxBlocks; ++b) {
        alone.task.keys[b] = &alone.keys[b * block], alone.task.values[b] = &alone.values[b * block];
      }
      for (int j = 0; j < kSoftmaxSegment; ++j) {
        if (j >= segment.task.first[i] && j < segment.task.last[i]) continue;
        for (int d = 0; d < 64; ++d) {
          alone.keys[j / kKvBlock * block + size_t(d) * kKvBlock + j % kKvBlock] = 0x7e00;
          alone.values[size_t(j) * 64 + d] = 0x7e00;
        }
      }
      alone.task.queries = 1;
      alone.task.q[0] = segment.task.q[i];
      alone.task.first[0] = segment.task.first[i], alone.task.last[0] = segment.task.last[i];
      ASSERT_TRUE(same_bits(alone.run(*row_kernels("portable"))[0], together[i]));
      for (const RowKernels* kernels : other_kernels()) {
        ASSERT_TRUE(same_bits(alone.run(*kernels)[0], together[i])) << kernels->isa;
      }
    }
  }
}

TEST(Attention, MergedSegmentsAreOneSoftmax) {
  const RowKernels& kernels = *row_kernels("portable");
  Floats a = {1, 2, 3}, b = {4, 5, 6};
  Softmax first{1.0f, 2.0f, a.data()};
  const Softmax second{3.0f, 1.5f, b.data()};
  kernels.merge(second, first, 3);
  EXPECT_EQ(first.max, 3.0f);
  EXPECT_NEAR(first.sum, 2 * std::exp(-2.0) + 1.5, 1e-6);
  kernels.finish(first, 3);
  EXPECT_NEAR(a[1], (2 * std::exp(-2.0) + 5) / (2 * std::exp(-2.0) + 1.5), 1e-6);
}

}  // namespace
}  // namespace drafthorse::cpu
