#include "support/tiny_models.h"
#include "laws/laws.h"

namespace drafthorse::test {
namespace {

std::vector<std::vector<int32_t>> mixed_prompts(int vocab) {
  std::mt19937 random(11);
  std::vector<std::vector<int32_t>> prompts(40);
  for (size_t i = 0; i < prompts.size(); ++i) {
    // Half of them repeat a phrase, so that lookup finds something.
    const size_t period = i % 2 ? 3 + random() % 10 : 1000;
    prompts[i].resize(2 + random() % 120);
    for (size_t k = 0; k < prompts[i].size(); ++k)
      prompts[i][k] =
          k < period ? static_cast<int32_t>(random() % static_cast<unsigned>(vocab)) : prompts[i][k - period];
  }
  return prompts;
}

struct Tiny {
  const char* name;
  TinyModel model;
  Format format;
};

class TinyLaws : public ::testing::TestWithParam<Tiny> {};

TEST_P(TinyLaws, OneAnswer) {
  const TempFolder folder;
  const Network network = open_network(write_tiny_gguf(folder / "m.gguf", GetParam().model, GetParam().format));
  Subject subject;
  subject.make = [&](int threads, const std::string& isa) { return make_model(network, threads, isa, 256); };
  subject.prompts = mixed_prompts(network.vocab);
  subject.answer = 24;
  subject.isas = {"portable", "avx2", "avx512", "neon"};
  expect_one_answer(subject, 8);
}

INSTANTIATE_TEST_SUITE_P(Families, TinyLaws,
                         ::testing::Values(Tiny{"llama_q4_1", {.family = "llama"}, Format::q4_1},
                                           Tiny{"qwen2_q8_0", {.family = "qwen2", .seed = 2}, Format::q8_0},
                                           Tiny{"qwen3_f16", {.family = "qwen3", .seed = 3}, Format::f16}),
                         [](const auto& info) { return info.param.name; });

// Models with recurrent layers, mixtures and drafting heads: those of the golden logits.
class HybridLaws : public ::testing::TestWithParam<const char*> {};

TEST_P(HybridLaws, OneAnswer) {
  const Network network = open_network(std::filesystem::path(DRAFTHORSE_TEST_DATA) / "hybrid_goldens" / GetParam());
  Subject subject;
  subject.make = [&](int threads, const std::string& isa) { return make_model(network, threads, isa, 256); };
  if (network.mtp) {
    subject.make_head = [&](Model& model) -> std::shared_ptr<Model> {
      auto head = model.load_companion(*network.mtp);
      if (!head) throw std::runtime_error(head.error().message);
      return std::move(*head);
    };
  }
  subject.prompts = mixed_prompts(network.vocab);
  subject.answer = 24;
  subject.isas = {"portable", "avx2", "avx512", "neon"};
  expect_one_answer(subject, 6);
}

INSTANTIATE_TEST_SUITE_P(Families, HybridLaws,
                         ::testing::Values("dense_thirds", "dense_fp32", "moe", "moe_nested", "qwen3_moe",
                                           "qwen3_next"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace drafthorse::test
