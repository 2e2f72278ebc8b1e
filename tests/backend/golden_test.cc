// The reference in fp32 against logits of transformers (tools/make_tiny_goldens.py), and the CPU backend near both.

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "backend/support/run_model.h"
#include "support/digest.h"
#include "support/tiny_models.h"

namespace drafthorse {
namespace {

using namespace drafthorse::test;  // NOLINT: the tests' own helpers

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

struct Golden {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Logits> logits;  // by prompt: [tokens, vocab]
};

Golden read_golden(const std::filesystem::path& folder, int vocab) {
  Golden golden;
  const std::string bytes = read_file(folder / "logits.bin");
  size_t at = 0;
  const boost::json::value json = boost::json::parse(read_file(folder / "golden.json"));
  for (const boost::json::value& prompt : json.at("prompts").as_array()) {
    std::vector<int32_t>& tokens = golden.prompts.emplace_back();
    for (const boost::json::value& token : prompt.as_array()) tokens.push_back(int32_t(token.as_int64()));
    Logits& logits = golden.logits.emplace_back(tokens.size() * size_t(vocab));
    if (at + logits.size() * sizeof(float) > bytes.size()) throw std::runtime_error("logits.bin is too short");
    std::memcpy(logits.data(), bytes.data() + at, logits.size() * sizeof(float));
    at += logits.size() * sizeof(float);
  }
  return golden;
}

// |a - b| over |a|, as vectors of one row; the largest over rows.
double worst_relative_error(std::span<const float> expected, std::span<const float> got, int vocab) {
  double worst = 0;
  for (size_t row = 0; row < expected.size(); row += size_t(vocab)) {
    double error = 0, size = 0;
    for (size_t i = row; i < row + size_t(vocab); ++i) {
      error += (double(got[i]) - expected[i]) * (double(got[i]) - expected[i]);
      size += double(expected[i]) * expected[i];
    }
    worst = std::max(worst, std::sqrt(error / size));
  }
  return worst;
}

// The most likely token of the row that begins at `row`.
std::ptrdiff_t top(const Logits& logits, size_t row, int vocab) {
  const auto begin = logits.begin() + std::ptrdiff_t(row);
  return std::max_element(begin, begin + vocab) - begin;
}

TEST(Golden, ReferenceInFp32IsTransformersAndTheCpuIsNear) {
  int models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(DRAFTHORSE_TEST_DATA) / "tiny_goldens")) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().filename());
    const Network network = open_network(entry.path());
    const Golden golden = read_golden(entry.path(), network.vocab);
    const std::unique_ptr<Model> exact = load(network, reference(false)), fast = load(network, cpu(2));
    for (size_t p = 0; p < golden.prompts.size(); ++p) {
      const Logits ours = run(*exact, golden.prompts[p], 512);
      ASSERT_EQ(ours.size(), golden.logits[p].size());
      const double error = worst_relative_error(golden.logits[p], ours, network.vocab);
      EXPECT_LT(error, 1e-4);
      for (size_t row = 0; row < ours.size(); row += size_t(network.vocab)) {
        EXPECT_EQ(top(ours, row, network.vocab), top(golden.logits[p], row, network.vocab)) << "row at " << row;
      }
      const Logits quick = run(*fast, golden.prompts[p], 512);
      const double divergence = mean_divergence(golden.logits[p], quick, network.vocab);
      EXPECT_LT(divergence, 1e-4);
      std::printf("%-22s relative error %.1e (reference, fp32), divergence %.1e (cpu)\n",
                  entry.path().filename().c_str(), error, divergence);
    }
    ++models;
  }
  EXPECT_GE(models, 7);
}

// Whole models give the bits that they give on x86-64, where these digests come from, on other architectures too. A
// change of an order of operations changes them, and is then a change of everybody's answers. (The angles of rope are
// fp64 and rounded to fp32, which hides the last bit of a system's sine.)
TEST(Golden, TheCpuGivesTheSameBitsOnEveryArchitecture) {
  const std::map<std::string, uint64_t> expected = {
      {"llama_linear_biases", 0x7f5f00f4992bab70}, {"llama_rope_llama3", 0x47fc166f528c7753},
      {"llama_tied", 0xde2f8bb7c73b6cf8},          {"mistral_window", 0x686d4bae107a5224},
      {"qwen2_biases", 0x5ab4d24695056e80},        {"qwen2_yarn", 0x3b405a4b3a98d14e},
      {"qwen3_norms", 0x07e266708de9ca07},
  };
  for (const auto& [name, digest] : expected) {
    const std::filesystem::path folder = std::filesystem::path(DRAFTHORSE_TEST_DATA) / "tiny_goldens" / name;
    const Network network = open_network(folder);
    const std::unique_ptr<Model> model = load(network, cpu(2));
    uint64_t found = test::digest({});
    for (const auto& prompt : read_golden(folder, network.vocab).prompts) {
      found = test::digest(run(*model, prompt, 512), found);
    }
    EXPECT_EQ(found, digest) << name;
  }
}

}  // namespace
}  // namespace drafthorse
