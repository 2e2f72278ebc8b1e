#include <gtest/gtest.h>

#include <filesystem>

#include "backend/support/random_network.h"
#include "backend/support/run_model.h"
#include "support/tiny_models.h"

namespace drafthorse {
namespace {

using namespace drafthorse::test;  // NOLINT: the tests' own helpers

struct Case {
  const char* name;
  RandomNetworkOptions options;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  auto add = [&](const char* name, auto change) {
    Case c{name, {}};
    change(c.options);
    all.push_back(c);
  };
  add("f32", [](auto&) {});
  add("f16 interleaved", [](auto& o) { o.format = Format::f16, o.interleaved = true; });
  add("bf16 heads of 32", [](auto& o) { o.format = Format::bf16, o.head_dim = 32, o.heads = o.kv_heads = 8; });
  add("q4_0 heads of 32", [](auto& o) { o.format = Format::q4_0, o.head_dim = 32, o.heads = o.kv_heads = 8; });
  add("q4_1 group of 3", [](auto& o) { o.format = Format::q4_1, o.heads = 6, o.hidden = 384, o.interleaved = true; });
  add("q5_0 group of 7", [](auto& o) { o.format = Format::q5_0, o.heads = 7, o.kv_heads = 1, o.hidden = 448; });
  add("q5_1 heads of 96", [](auto& o) { o.format = Format::q5_1, o.head_dim = 96; });
  add("q8_0 head norms", [](auto& o) { o.format = Format::q8_0, o.head_norms = true; });
  add("q2_k", [](auto& o) { o.format = Format::q2_k; });
  add("q3_k", [](auto& o) { o.format = Format::q3_k; });
  add("q4_k biases", [](auto& o) { o.format = Format::q4_k, o.bias = true; });
  add("q5_k window", [](auto& o) { o.format = Format::q5_k, o.window = 37; });
  add("q6_k head norms, window", [](auto& o) { o.format = Format::q6_k, o.head_norms = true, o.window = 200; });
  add("affine 4 bits of 64", [](auto& o) { o.format = Format::affine, o.bits = 4, o.group_size = 64; });
  add("affine 8 bits of 32", [](auto& o) { o.format = Format::affine, o.bits = 8, o.group_size = 32; });
  add("mxfp4", [](auto& o) { o.format = Format::mxfp4, o.bits = 4, o.group_size = 32; });
  add("q8_0 softcaps, norms after, gelu",
      [](auto& o) { o.format = Format::q8_0, o.softcap = 20, o.logit_softcap = 15, o.after_norms = o.gelu = true; });
  return all;
}

TEST(CpuModel, RowsDoNotDependOnChunksThreadsOrInstructionSet) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const RandomNetwork random(c.options);
    const std::vector<int32_t> tokens = random_tokens(300, c.options.vocab, 5);
    const Logits expected = run(*load(random.network, cpu(1)), tokens, 300);
    for (float logit : expected) ASSERT_TRUE(std::isfinite(logit));
    for (int chunk : {1, 7, 64}) {
      EXPECT_TRUE(same_bits(run(*load(random.network, cpu(2)), tokens, chunk), expected)) << "chunks of " << chunk;
    }
    for (int threads : {2, 3}) {
      EXPECT_TRUE(same_bits(run(*load(random.network, cpu(threads)), tokens, 300), expected)) << threads << " threads";
    }
    for (const char* isa : {"portable", "avx2", "avx512", "neon"}) {
      Result<std::unique_ptr<Model>> model = load_model(random.network, cpu(1, isa));
      if (!model) continue;  // this machine or build lacks it; load_model_test has the message
      EXPECT_TRUE(same_bits(run(**model, tokens, 128), expected)) << isa;
    }
  }
}

TEST(CpuModel, EqualsTheReferenceBitForBit) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const RandomNetwork random(c.options);
    // Past one segment of the softmax where the cases differ in attention; the scalar products take their time.
    const bool long_one = c.options.window > 0 || c.options.format == Format::f32;
    const std::vector<int32_t> tokens = random_tokens(long_one ? 270 : 40, c.options.vocab, 6);
    const std::unique_ptr<Model> model = load(random.network, reference(true));
    EXPECT_TRUE(same_bits(run(*load(random.network, cpu(2)), tokens, 270), run(*model, tokens, 270)));
  }
}

TEST(CpuModel, StaysNearFp32Activations) {
  for (const Case& c : cases()) {
    const RandomNetwork random(c.options);
    const std::vector<int32_t> tokens = random_tokens(40, c.options.vocab, 7);
    const Logits quantised = run(*load(random.network, cpu()), tokens, 40);
    const Logits exact = run(*load(random.network, reference(false)), tokens, 40);
    const double mean = mean_divergence(exact, quantised, c.options.vocab);
    std::printf("%-34s mean KL from fp32 activations %.2e\n", c.name, mean);
    EXPECT_LT(mean, 2e-3) << c.name;
  }
}

TEST(CpuModel, RowsDoNotDependOnTheOtherSequences) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const RandomNetwork random(c.options);
    const std::unique_ptr<Model> model = load(random.network, cpu(2));
    std::vector<std::vector<int32_t>> tokens;
    std::vector<Logits> alone;
    for (int s = 0; s < 4; ++s) {
      tokens.push_back(random_tokens(150 + 61 * s, c.options.vocab, 10 + unsigned(s)));
      alone.push_back(run(*model, tokens.back(), 512));
    }
    // Ragged steps: each sequence advances by its own number of tokens, 1 to 90, until all are done.
    std::vector<std::unique_ptr<State>> states;
    for (int s = 0; s < 4; ++s) states.push_back(model->new_state());
    std::vector<Logits> together(4);
    std::mt19937 dice(3);
    for (bool more = true; more;) {
      std::vector<BatchItem> batch;
      std::vector<int> owner;
      for (int s = 0; s < 4; ++s) {
        const size_t at = size_t(states[s]->length()), left = tokens[s].size() - at;
        if (left == 0) continue;
        const size_t n = dice() % 3 == 0 ? 1 : std::min<size_t>(left, 1 + dice() % 90);
        batch.push_back({states[s].get(), std::span(tokens[s]).subspan(at, n), LogitRows::all});
        owner.push_back(s);
      }
      more = !batch.empty();
      if (!more) break;
      const RunOutput out = model->run(batch);
      size_t at = 0;
      for (size_t i = 0; i < batch.size(); ++i) {
        const size_t n = batch[i].tokens.size() * size_t(c.options.vocab);
        together[owner[i]].insert(together[owner[i]].end(), out.logits.begin() + at, out.logits.begin() + at + n);
        at += n;
      }
    }
    for (int s = 0; s < 4; ++s) EXPECT_TRUE(same_bits(together[s], alone[s])) << "sequence " << s;
  }
}

TEST(CpuModel, LongBatchesGoInPiecesAndLogitRowsAreTheAskedOnes) {
  const RandomNetwork random(RandomNetworkOptions{});
  const std::unique_ptr<Model> model = load(random.network, cpu(2));
  const std::vector<int32_t> tokens = random_tokens(1300, 300, 8);
  const Logits expected = run(*model, tokens, 64);
  EXPECT_TRUE(same_bits(run(*model, tokens, 1300), expected));
  const std::unique_ptr<State> a = model->new_state(), b = model->new_state(), c = model->new_state();
  const std::span<const int32_t> all(tokens);
  const BatchItem batch[] = {{a.get(), all.first(700), LogitRows::last},
                             {b.get(), all.first(33), LogitRows::none},
                             {c.get(), all.first(1300), LogitRows::last}};
  const RunOutput out = model->run(batch);
  ASSERT_EQ(out.rows, 2);
  EXPECT_TRUE(same_bits(out.logits.first(300), std::span(expected).subspan(699 * 300, 300)));
  EXPECT_TRUE(same_bits(out.logits.subspan(300), std::span(expected).subspan(1299 * 300, 300)));
  EXPECT_EQ(a->length(), 700);
  EXPECT_EQ(b->length(), 33);
  EXPECT_EQ(c->length(), 1300);
}

TEST(CpuModel, TruncateAndRunAgainIsAFreshRun) {
  RandomNetworkOptions options;
  options.format = Format::q8_0;
  const RandomNetwork random(options);
  const std::unique_ptr<Model> model = load(random.network, cpu(2));
  const std::vector<int32_t> tokens = random_tokens(400, 300, 9), other = random_tokens(200, 300, 19);
  const Logits expected = run(*model, tokens, 400);
  const std::unique_ptr<State> state = model->new_state();
  std::mt19937 dice(1);
  (void)run(*model, *state, tokens, 400);
  for (int trial = 0; trial < 8; ++trial) {
    const int keep = int(dice() % 400);
    state->truncate(keep);
    (void)run(*model, *state, std::span(other).first(1 + dice() % 150), 150);  // a draft that is thrown away
    state->truncate(keep);
    const Logits again = run(*model, *state, std::span(tokens).subspan(size_t(keep)), 100);
    EXPECT_TRUE(same_bits(again, std::span(expected).subspan(size_t(keep) * 300))) << "from " << keep;
  }
}

TEST(CpuModel, ACancelledRunExtendsNothing) {
  const RandomNetwork random(RandomNetworkOptions{});
  for (const BackendOptions& options : {cpu(2), reference(true)}) {
    const std::unique_ptr<Model> model = load(random.network, options);
    const std::vector<int32_t> tokens = random_tokens(600, 300, 11);
    const Logits expected = run(*model, std::span(tokens).first(100), 100);
    const std::unique_ptr<State> state = model->new_state();
    (void)run(*model, *state, std::span(tokens).first(50), 50);
    for (int polls : {0, 1}) {  // before the first and the second block
      const BatchItem item{state.get(), std::span(tokens).subspan(50), LogitRows::last};
      int left = polls;
      const RunOutput out = model->run({&item, 1}, [&] { return left-- == 0; });
      EXPECT_EQ(out.rows, 0);
      EXPECT_EQ(state->length(), 50);
    }
    const Logits rest = run(*model, *state, std::span(tokens).subspan(50, 50), 50);
    EXPECT_TRUE(same_bits(rest, std::span(expected).subspan(50 * 300)));
  }
}

TEST(CpuModel, TheKvPoolIsCountedReservedAndGivenBack) {
  const RandomNetwork random(RandomNetworkOptions{});  // 2 blocks, 2 kv heads of 64: 1024 bytes a position
  BackendOptions options = cpu();
  options.kv_bytes = 5 * 64 * 1024;
  const std::unique_ptr<Model> model = load(random.network, options);
  EXPECT_EQ(model->context(), 5 * 64);
  EXPECT_EQ(model->memory()[1].name, "kv");
  EXPECT_EQ(model->memory()[1].bytes, options.kv_bytes);
  const std::vector<int32_t> tokens = random_tokens(200, 300, 12);
  std::unique_ptr<State> a = model->new_state();
  const std::unique_ptr<State> b = model->new_state();
  (void)run(*model, *a, std::span(tokens).first(100), 100);  // 2 blocks
  EXPECT_TRUE(model->reserve(*b, 192).ok());                 // 3 blocks
  EXPECT_TRUE(model->reserve(*a, 28).ok());
  const Status full = model->reserve(*a, 29);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, ErrorKind::out_of_memory);
  EXPECT_NE(full.error().message.find("0 of 5 are free"), std::string::npos) << full.error().message;
  EXPECT_EQ(model->reserve(*a, 1000).error().kind, ErrorKind::context_length);
  // A run that finds the pool full leaves everything as it was.
  const BatchItem too_long{a.get(), std::span(tokens).first(60), LogitRows::last};
  EXPECT_THROW((void)model->run({&too_long, 1}), std::logic_error);
  EXPECT_EQ(a->length(), 100);
  // A truncate keeps what was reserved; a reservation of nothing gives it back.
  (void)run(*model, *b, std::span(tokens).first(150), 150);
  b->truncate(10);
  EXPECT_FALSE(model->reserve(*a, 29).ok());
  EXPECT_TRUE(model->reserve(*b, 0).ok());
  EXPECT_TRUE(model->reserve(*a, 29).ok());
  a.reset();
  EXPECT_TRUE(model->reserve(*b, 5 * 64 - 10).ok());
}

// The families as their translators read them, in every container and format.
TEST(CpuModel, FamiliesEqualTheReferenceBitForBit) {
  const TempFolder folder;
  int files = 0;
  auto check = [&](const std::filesystem::path& path) {
    SCOPED_TRACE(path);
    const Network network = open_network(path);
    const std::vector<int32_t> tokens = random_tokens(24, network.vocab, 13);
    const Logits expected = run(*load(network, reference(true)), tokens, 24);
    const std::unique_ptr<Model> model = load(network, cpu(2));
    EXPECT_TRUE(same_bits(run(*model, tokens, 24), expected));
    EXPECT_TRUE(same_bits(run(*model, tokens, 11), expected));
    ++files;
  };
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    TinyModel tiny;
    tiny.family = family;
    tiny.hidden = 256, tiny.intermediate = 256, tiny.head_dim = 64, tiny.context = 128;
    for (Format format :
         {Format::f32, Format::f16, Format::bf16, Format::q4_0, Format::q4_1, Format::q5_0, Format::q5_1, Format::q8_0,
          Format::q2_k, Format::q3_k, Format::q4_k, Format::q5_k, Format::q6_k, Format::iq4_nl, Format::iq4_xs}) {
      check(write_tiny_gguf(folder / (std::string(family) + std::string(name(format)) + ".gguf"), tiny, format));
    }
    for (int bits : {2, 3, 4, 5, 6, 8}) {
      for (int group : {32, 64, 128}) {
        const std::string file = std::string(family) + std::to_string(bits) + "-" + std::to_string(group);
        check(write_tiny_mlx(folder / file, tiny, {.bits = bits, .group_size = group}));
      }
    }
    check(write_tiny_hf(folder / (std::string(family) + "hf"), tiny, Format::bf16));
  }
  EXPECT_EQ(files, 4 * (15 + 18 + 1));
}

TEST(LoadModel, ErrorsSayWhatToDo) {
  const RandomNetwork random(RandomNetworkOptions{});
  auto error = [&](BackendOptions options) {
    Result<std::unique_ptr<Model>> model = load_model(random.network, options);
    return model.ok() ? Error{ErrorKind::internal, "loaded", ""} : model.error();
  };
  BackendOptions options;
  options.backend = "abacus";
  EXPECT_EQ(error(options).kind, ErrorKind::invalid_argument);
  EXPECT_NE(error(options).message.find("cpu, reference"), std::string::npos);
  options = cpu();
  options.kv_bytes = 1000;
  EXPECT_EQ(error(options).kind, ErrorKind::out_of_memory);
  EXPECT_NE(error(options).message.find("65536"), std::string::npos) << error(options).message;
  options = cpu();
  options.context = 5000;
  EXPECT_NE(error(options).message.find("4096"), std::string::npos);
  options.context = 4096;
  options.kv_bytes = 65536;
  EXPECT_EQ(error(options).kind, ErrorKind::out_of_memory);
  EXPECT_EQ(error(cpu(1, "mmx")).kind, ErrorKind::invalid_argument);

  RandomNetwork wrong(RandomNetworkOptions{});
  std::get<Mlp>(wrong.network.blocks[1].ffn).down.weight.format = Format::i32;
  Result<std::unique_ptr<Model>> model = load_model(wrong.network, cpu());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("block 1"), std::string::npos) << model.error().message;
  EXPECT_NE(model.error().message.find("blocks.1.down"), std::string::npos) << model.error().message;
}

TEST(CpuModel, ProgressReachesTheTotal) {
  const RandomNetwork random(RandomNetworkOptions{});
  uint64_t done = 0, total = 1;
  ASSERT_TRUE(load_model(random.network, cpu(), [&](uint64_t d, uint64_t t) {
                EXPECT_GE(d, done);
                done = d, total = t;
              }).ok());
  EXPECT_EQ(done, total);
}

TEST(RealModel, SmolLm2IsTheSameOnReferenceAndCpu) {
  const std::filesystem::path path =
      std::filesystem::path(DRAFTHORSE_SOURCE) / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing: tools/fetch_test_models.py fetches it";
  Result<std::shared_ptr<const Checkpoint>> checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  Result<Network> network = read_network(*checkpoint);
  ASSERT_TRUE(network.ok()) << network.error().message;
  // "The quick brown fox" in the model's vocabulary.
  const std::vector<int32_t> prompt = {504, 2365, 6354, 16438};
  const std::vector<int32_t> fast = greedy(*load(*network, cpu(2)), prompt, 20);
  EXPECT_EQ(fast, greedy(*load(*network, reference(true)), prompt, 20));
  for (int32_t token : fast) std::printf("%d ", token);
  std::printf("\n");
}

}  // namespace
}  // namespace drafthorse
