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
  int every = 1;                          // logits are of positions p with (p + 1) % every == 0
  std::vector<Logits> logits;             // by prompt: [tokens / every, vocab]
  std::vector<std::vector<int32_t>> top;  // by prompt: the most likely token after each position, where all are known
  int greedy_prompt = 0;                  // tokens of the first prompt that `greedy` continues
  std::vector<int32_t> greedy;
};

std::vector<int32_t> token_list(const boost::json::value& list) {
  std::vector<int32_t> tokens;
  for (const boost::json::value& token : list.as_array()) tokens.push_back(int32_t(token.as_int64()));
  return tokens;
}

// Floats of a file, `counts` of them for one prompt after another.
std::vector<Logits> read_logits(const std::filesystem::path& file, const std::vector<size_t>& counts) {
  const std::string bytes = read_file(file);
  std::vector<Logits> all;
  size_t at = 0;
  for (size_t count : counts) {
    if (at + count * sizeof(float) > bytes.size()) throw std::runtime_error(file.string() + " is too short");
    std::memcpy(all.emplace_back(count).data(), bytes.data() + at, count * sizeof(float));
    at += count * sizeof(float);
  }
  return all;
}

Golden read_golden(const std::filesystem::path& folder, int vocab) {
  Golden golden;
  const boost::json::value json = boost::json::parse(read_file(folder / "golden.json"));
  const boost::json::object& facts = json.as_object();
  if (facts.contains("every")) golden.every = int(facts.at("every").as_int64());
  std::vector<size_t> counts;
  for (const boost::json::value& prompt : facts.at("prompts").as_array()) {
    golden.prompts.push_back(token_list(prompt));
    counts.push_back(golden.prompts.back().size() / size_t(golden.every) * size_t(vocab));
  }
  golden.logits = read_logits(folder / "logits.bin", counts);
  if (!facts.contains("top")) return golden;
  for (const boost::json::value& top : facts.at("top").as_array()) golden.top.push_back(token_list(top));
  golden.greedy_prompt = int(facts.at("greedy").at("prompt").as_int64());
  golden.greedy = token_list(facts.at("greedy").at("tokens"));
  return golden;
}

// Rows p of [rows, vocab] with (p + 1) % every == 0.
Logits every_nth(const Logits& logits, int every, int vocab) {
  Logits kept;
  for (size_t row = size_t(every) - 1; row < logits.size() / size_t(vocab); row += size_t(every)) {
    kept.insert(kept.end(), logits.begin() + std::ptrdiff_t(row * size_t(vocab)),
                logits.begin() + std::ptrdiff_t((row + 1) * size_t(vocab)));
  }
  return kept;
}

std::vector<std::filesystem::path> folders_in(const char* name) {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(DRAFTHORSE_TEST_DATA) / name)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
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
  const std::vector<std::filesystem::path> folders = folders_in("tiny_goldens");
  EXPECT_GE(folders.size(), 7u);
  for (const std::filesystem::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    const Network network = open_network(folder);
    const Golden golden = read_golden(folder, network.vocab);
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
      std::printf("%-22s relative error %.1e (reference, fp32), divergence %.1e (cpu)\n", folder.filename().c_str(),
                  error, divergence);
    }
  }
}

// The reference in fp32 against another implementation's logits and greedy text, and the CPU against the reference.
void expect_reference_is(const std::filesystem::path& folder) {
  SCOPED_TRACE(folder.filename());
  const Network network = open_network(folder);
  const Golden golden = read_golden(folder, network.vocab);
  const std::unique_ptr<Model> exact = load(network, reference(false)), coarse = load(network, reference(true)),
                               fast = load(network, cpu(2));
  for (size_t p = 0; p < golden.prompts.size(); ++p) {
    const Logits ours = run(*exact, golden.prompts[p], 512);
    const double error =
        worst_relative_error(golden.logits[p], every_nth(ours, golden.every, network.vocab), network.vocab);
    EXPECT_LT(error, 1e-4);
    for (size_t row = 0; row < golden.prompts[p].size(); ++row) {
      EXPECT_EQ(top(ours, row * size_t(network.vocab), network.vocab), golden.top[p][row]) << "row " << row;
    }
    EXPECT_TRUE(same_bits(run(*exact, golden.prompts[p], 1), ours)) << "one by one";
    const Logits quantised = run(*coarse, golden.prompts[p], 512);
    EXPECT_TRUE(same_bits(run(*fast, golden.prompts[p], 100), quantised)) << "cpu and quantised reference";
    const double divergence = mean_divergence(ours, quantised, network.vocab);
    // No bound: the first rows of a random DeltaNet are normed sums close to zero, which turn on any rounding.
    std::printf("%-14s relative error %.1e (reference, fp32), divergence %.1e (reference, quantised)\n",
                folder.filename().c_str(), error, divergence);
  }
  const std::vector<int32_t> prompt(golden.prompts[0].begin(), golden.prompts[0].begin() + golden.greedy_prompt);
  EXPECT_EQ(golden.greedy.size(), 200u);
  EXPECT_EQ(greedy(*exact, prompt, int(golden.greedy.size())), golden.greedy);
}

TEST(HybridGolden, ReferenceInFp32IsTransformers) {
  const std::vector<std::filesystem::path> folders = folders_in("hybrid_goldens");
  EXPECT_GE(folders.size(), 7u);
  for (const std::filesystem::path& folder : folders) expect_reference_is(folder);
}

// Packs that mlx-lm has quantised, and its own fp32 results on them (tools/mlx_oracle.py).
TEST(HybridGolden, ReferenceInFp32IsMlxLmOnItsPacks) {
  const std::vector<std::filesystem::path> folders = folders_in("mlx_goldens");
  EXPECT_GE(folders.size(), 3u);
  for (const std::filesystem::path& folder : folders) expect_reference_is(folder);
}

// Rows (hidden vector of position p, token p + 1) of the head, from the model's own hidden vectors.
Logits head_logits(Model& model, Model& head, const Network& network, const std::vector<int32_t>& tokens) {
  const std::unique_ptr<State> state = model.new_state(), head_state = head.new_state();
  const BatchItem item{state.get(), tokens, LogitRows::none, 0, network.mtp_hidden};
  const RunOutput out = model.run({&item, 1});
  const std::span<const float> hidden = out.hidden.first((tokens.size() - 1) * size_t(network.hidden));
  const BatchItem joined{head_state.get(), std::span(tokens).subspan(1), LogitRows::all, 0, Hidden::none, hidden};
  const RunOutput drafted = head.run({&joined, 1});
  return {drafted.logits.begin(), drafted.logits.end()};
}

// Tokens that follow `tokens`, drafted by the head chained on itself after the whole history.
std::vector<int32_t> chained_drafts(Model& model, Model& head, const Network& network, std::span<const int32_t> tokens,
                                    size_t count) {
  const std::unique_ptr<State> state = model.new_state(), head_state = head.new_state();
  const size_t width = size_t(network.hidden);
  const BatchItem item{state.get(), tokens, LogitRows::none, 0, network.mtp_hidden};
  const RunOutput out = model.run({&item, 1});
  std::vector<float> hidden(out.hidden.begin(), out.hidden.end() - std::ptrdiff_t(width));
  std::vector<int32_t> next(tokens.begin() + 1, tokens.end()), drafts;
  while (drafts.size() < count) {
    const BatchItem joined{head_state.get(), next, LogitRows::last, 0, Hidden::after_norm, hidden};
    const RunOutput drafted = head.run({&joined, 1});
    drafts.push_back(int32_t(std::max_element(drafted.logits.begin(), drafted.logits.end()) - drafted.logits.begin()));
    hidden.assign(drafted.hidden.end() - std::ptrdiff_t(width), drafted.hidden.end());
    next = {drafts.back()};
  }
  return drafts;
}

TEST(HybridGolden, TheDraftingHeadIsTheOneInNumPy) {
  int heads = 0;
  for (const std::filesystem::path& folder : folders_in("hybrid_goldens")) {
    if (!std::filesystem::exists(folder / "mtp.bin")) continue;
    SCOPED_TRACE(folder.filename());
    ++heads;
    const Network network = open_network(folder);
    ASSERT_TRUE(network.mtp);
    const Golden golden = read_golden(folder, network.vocab);
    const std::unique_ptr<Model> model = load(network, reference(false));
    Result<std::unique_ptr<Model>> head = model->load_companion(*network.mtp);
    ASSERT_TRUE(head.ok()) << head.error().message;
    std::vector<size_t> counts;
    for (const auto& prompt : golden.prompts) {
      counts.push_back((prompt.size() - 1) / size_t(golden.every) * size_t(network.vocab));
    }
    const std::vector<Logits> expected = read_logits(folder / "mtp.bin", counts);
    for (size_t p = 0; p < golden.prompts.size(); ++p) {
      const Logits ours =
          every_nth(head_logits(*model, **head, network, golden.prompts[p]), golden.every, network.vocab);
      const double error = worst_relative_error(expected[p], ours, network.vocab);
      EXPECT_LT(error, 1e-4);
      for (size_t row = 0; row < ours.size(); row += size_t(network.vocab)) {
        EXPECT_EQ(top(ours, row, network.vocab), top(expected[p], row, network.vocab));
      }
      std::printf("%-14s relative error of the head %.1e\n", folder.filename().c_str(), error);
    }
    const boost::json::value json = boost::json::parse(read_file(folder / "mtp.json"));
    for (const boost::json::value& line : json.at("drafts").as_array()) {
      const std::vector<int32_t> drafts = token_list(line.at("tokens"));
      const std::span<const int32_t> seen = std::span(golden.prompts[0]).first(size_t(line.at("prompt").as_int64()));
      EXPECT_EQ(chained_drafts(*model, **head, network, seen, drafts.size()), drafts);
    }
  }
  EXPECT_GE(heads, 5);
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
