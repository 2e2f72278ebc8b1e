// Gated delta rules, mixtures and drafting heads on the CPU backend, held to the reference.

#include <gtest/gtest.h>

#include "backend/support/random_network.h"
#include "backend/support/rollback.h"
#include "backend/support/run_model.h"

namespace drafthorse {
namespace {

using namespace drafthorse::test;  // NOLINT: the tests' own helpers

struct Case {
  const char* name;
  RandomNetworkOptions options;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  auto add = [&](const char* name, RandomNetworkOptions options, auto change) {
    change(options);
    all.push_back({name, options});
  };
  add("dense f32", hybrid_options(), [](auto&) {});
  add("dense q8_0, tiled heads, sigmoid gate", hybrid_options(),
      [](auto& o) { o.format = Format::q8_0, o.tiled_heads = o.sigmoid_gate = true, o.value_heads = 6, o.kernel = 2; });
  add("dense affine 4 bits of 64, delta in the last block, biases", hybrid_options(),
      [](auto& o) { o.format = Format::affine, o.bits = 4, o.group_size = 64, o.blocks = 3, o.bias = true; });
  add("dense bf16, norms after, odd key heads", hybrid_options(), [](auto& o) {
    o.format = Format::bf16, o.after_norms = o.gelu = true, o.key_heads = o.value_heads = 3, o.key_dim = 22;
    o.value_dim = 48, o.kernel = 1;
  });
  add("no attention", hybrid_options(), [](auto& o) { o.blocks = 2, o.full_attention_interval = 5, o.mtp = false; });
  add("moe f32", hybrid_moe_options(), [](auto&) {});
  add("moe affine 4 bits of 64, one of four", hybrid_moe_options(), [](auto& o) {
    o.format = Format::affine, o.bits = 4, o.group_size = 64, o.experts = 4, o.top_k = 1, o.shared_gate = false;
  });
  add("moe q4_0, not normalised, all experts", hybrid_moe_options(), [](auto& o) {
    o.format = Format::q4_0, o.normalised = o.shared_expert = false, o.top_k = 8, o.expert_inner = 96;
  });
  add("moe q4_k", hybrid_moe_options(), [](auto& o) {
    o.format = Format::q4_k, o.hidden = o.inner = o.expert_inner = 256, o.value_heads = 8, o.gelu = true, o.experts = 5;
  });
  return all;
}

// Room for some sequences: of a network without attention the default pool holds one.
BackendOptions roomy(int threads) {
  BackendOptions options = cpu(threads);
  options.kv_bytes = 64 << 20;
  return options;
}

std::unique_ptr<Model> companion(Model& model, const Network& network) {
  Result<std::unique_ptr<Model>> head = model.load_companion(network);
  if (!head) throw std::runtime_error(head.error().message);
  return std::move(*head);
}

Rows run_chunks(Model& model, const Text& text, size_t length, size_t chunk) {
  const std::unique_ptr<State> state = model.new_state();
  Rows all;
  for (size_t at = 0; at < length; at += chunk) {
    const Rows rows = run_rows(model, *state, text, at, std::min(chunk, length - at));
    all.logits.insert(all.logits.end(), rows.logits.begin(), rows.logits.end());
    all.hidden.insert(all.hidden.end(), rows.hidden.begin(), rows.hidden.end());
  }
  return all;
}

TEST(CpuHybrid, EqualsTheReferenceBitForBit) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const RandomNetwork random(c.options);
    const std::unique_ptr<Model> expected = load(random.network, reference(true)), model = load(random.network, cpu(2));
    const Text text = random_text(45, *model, false, 6);
    EXPECT_TRUE(same_rows(*model, run_chunks(*model, text, 45, 45), run_chunks(*expected, text, 45, 45), 0, 45));
    if (!random.network.mtp) continue;
    const std::unique_ptr<Model> slow_head = companion(*expected, *random.network.mtp);
    const std::unique_ptr<Model> head = companion(*model, *random.network.mtp);
    const Text joined = random_text(45, *head, true, 7);
    EXPECT_TRUE(same_rows(*head, run_chunks(*head, joined, 45, 45), run_chunks(*slow_head, joined, 45, 45), 0, 45));
  }
}

TEST(CpuHybrid, RowsDoNotDependOnChunksThreadsOrInstructionSet) {
  constexpr size_t kLength = 150;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const RandomNetwork random(c.options);
    const std::unique_ptr<Model> one = load(random.network, cpu(1));
    const Text text = random_text(kLength, *one, false, 5);
    const Rows expected = run_chunks(*one, text, kLength, kLength);
    for (float logit : expected.logits) ASSERT_TRUE(std::isfinite(logit));
    auto check = [&](Model& model, size_t chunk) {
      return same_rows(model, run_chunks(model, text, kLength, chunk), expected, 0, kLength);
    };
    for (size_t chunk : {1, 7, 33}) EXPECT_TRUE(check(*load(random.network, cpu(2)), chunk)) << "chunks of " << chunk;
    for (int threads : {2, 3})
      EXPECT_TRUE(check(*load(random.network, cpu(threads)), kLength)) << threads << " threads";
    for (const char* isa : {"portable", "avx2", "avx512", "neon"}) {
      Result<std::unique_ptr<Model>> model = load_model(random.network, cpu(1, isa));
      if (!model) continue;  // this machine or build lacks it
      EXPECT_TRUE(check(**model, 64)) << isa;
    }
  }
}

TEST(CpuHybrid, RollbackIsAFreshRun) {
  unsigned seed = 1;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const RandomNetwork random(c.options);
    const std::unique_ptr<Model> model = load(random.network, roomy(2));
    expect_rollback_is_a_fresh_run(*model, false, 300, ++seed);
    if (!random.network.mtp) continue;
    const std::unique_ptr<Model> head = companion(*model, *random.network.mtp);
    expect_rollback_is_a_fresh_run(*head, true, 300, ++seed);
  }
}

// Sequences that draft, roll back and advance by their own numbers of rows in the same runs.
TEST(CpuHybrid, RollbackBesideOtherSequencesIsAFreshRun) {
  constexpr int kSequences = 4, kLength = 260;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const RandomNetwork random(c.options);
    const std::unique_ptr<Model> model = load(random.network, roomy(2));
    const size_t vocab = size_t(model->vocab());
    std::vector<Text> texts;
    std::vector<Rows> alone;
    std::vector<std::unique_ptr<State>> states;
    for (int s = 0; s < kSequences; ++s) {
      texts.push_back(random_text(kLength, *model, false, 20 + unsigned(s)));
      alone.push_back(run_chunks(*model, texts.back(), kLength, 100));
      states.push_back(model->new_state());
    }
    std::mt19937 dice(8);
    auto below = [&](size_t n) { return size_t(dice() % n); };
    struct Part {
      size_t sequence, at, sure, right;
      std::vector<int32_t> tokens;
    };
    for (int round = 0; round < 120; ++round) {
      std::vector<Part> parts;
      std::vector<BatchItem> batch;
      for (size_t s = 0; s < kSequences; ++s) {
        Part part{s, size_t(states[s]->length()), 0, 0, {}};
        const size_t left = kLength - part.at;
        part.sure = std::min(left, below(4) == 0 ? below(50) : below(3)),
        part.right = std::min(left - part.sure, below(6));
        const size_t bad = below(6);
        const std::span<const int32_t> tokens(texts[s].tokens);
        part.tokens.assign(tokens.begin() + part.at, tokens.begin() + part.at + part.sure + part.right);
        for (size_t i = 0; i < bad; ++i) part.tokens.push_back(int32_t(below(vocab)));
        if (!part.tokens.empty()) parts.push_back(std::move(part));
      }
      for (const Part& part : parts) {
        batch.push_back(
            {states[part.sequence].get(), part.tokens, LogitRows::all, int(part.tokens.size() - part.sure)});
      }
      if (batch.empty()) continue;
      const RunOutput out = model->run(batch);
      size_t row = 0;
      for (const Part& part : parts) {
        const size_t n = part.sure + part.right;
        ASSERT_TRUE(same_bits(out.logits.subspan(row * vocab, n * vocab),
                              std::span(alone[part.sequence].logits).subspan(part.at * vocab, n * vocab)))
            << "round " << round << ", sequence " << part.sequence;
        row += part.tokens.size();
        states[part.sequence]->truncate(int(part.at + part.sure + below(part.right + 1)));
        if (part.at + n == kLength) states[part.sequence]->truncate(0);
      }
    }
  }
}

TEST(CpuHybrid, LongBatchesGoInPiecesThatCutNoDraft) {
  for (const RandomNetworkOptions& options : {hybrid_options(), hybrid_moe_options()}) {
    const RandomNetwork random(options);
    const std::unique_ptr<Model> model = load(random.network, roomy(2));
    const size_t vocab = size_t(model->vocab());
    const Text text = random_text(1300, *model, false, 8);
    const Rows expected = run_chunks(*model, text, 1300, 64);
    EXPECT_TRUE(same_rows(*model, run_chunks(*model, text, 1300, 1300), expected, 0, 1300));
    // The first sequence ends 8 rows after the piece's 512, with a draft of 16 across that border.
    const std::unique_ptr<State> a = model->new_state(), b = model->new_state(), c = model->new_state();
    const std::span<const int32_t> all(text.tokens);
    const BatchItem batch[] = {{a.get(), all.first(520), LogitRows::last, 16},
                               {b.get(), all.first(33), LogitRows::none},
                               {c.get(), all.first(700), LogitRows::last}};
    const RunOutput out = model->run(batch);
    ASSERT_EQ(out.rows, 2);
    EXPECT_TRUE(same_bits(out.logits.first(vocab), std::span(expected.logits).subspan(519 * vocab, vocab)));
    EXPECT_TRUE(same_bits(out.logits.subspan(vocab), std::span(expected.logits).subspan(699 * vocab, vocab)));
    a->truncate(509);
    EXPECT_TRUE(same_rows(*model, run_rows(*model, *a, text, 509, 20), expected, 509, 20));
    EXPECT_TRUE(same_rows(*model, run_rows(*model, *b, text, 33, 20, 3), expected, 33, 20));
  }
}

// Rows that want no output stop early in the last block; what later rows see of them is the same.
TEST(CpuHybrid, RowsWithoutOutputFillTheCaches) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const RandomNetwork random(c.options);
    const std::unique_ptr<Model> model = load(random.network, roomy(2));
    std::unique_ptr<Model> head;
    if (random.network.mtp) head = companion(*model, *random.network.mtp);
    for (Model* m : {model.get(), head.get()}) {
      if (!m) continue;
      const Text text = random_text(60, *m, m == head.get(), 9);
      const Rows expected = run_chunks(*m, text, 60, 60);
      const size_t vocab = size_t(m->vocab()), hidden = size_t(m->hidden());
      auto item = [&](State& state, size_t at, size_t n, LogitRows logits) {
        BatchItem made{&state, std::span(text.tokens).subspan(at, n), logits};
        if (!text.joined.empty()) made.joined = std::span(text.joined).subspan(at * hidden, n * hidden);
        return made;
      };
      const std::unique_ptr<State> a = m->new_state(), b = m->new_state(), d = m->new_state();
      BatchItem batch[] = {item(*a, 0, 20, LogitRows::none), item(*b, 0, 9, LogitRows::last),
                           item(*d, 0, 12, LogitRows::none)};
      batch[2].hidden = Hidden::before_norm;
      const RunOutput out = m->run(batch);
      ASSERT_EQ(out.rows, 1);
      EXPECT_TRUE(same_bits(out.logits, std::span(expected.logits).subspan(8 * vocab, vocab)));
      EXPECT_TRUE(same_bits(out.hidden, std::span(expected.hidden).first(12 * hidden)));
      const BatchItem more[] = {item(*a, 20, 10, LogitRows::none), item(*b, 9, 21, LogitRows::none)};
      EXPECT_EQ(m->run(more).rows, 0);
      for (State* state : {a.get(), b.get()}) {
        EXPECT_TRUE(same_rows(*m, run_rows(*m, *state, text, 30, 30), expected, 30, 30));
      }
      EXPECT_TRUE(same_rows(*m, run_rows(*m, *d, text, 12, 30), expected, 12, 30));
    }
  }
}

TEST(CpuHybrid, HiddenVectorsComeInItemOrderBeforeOrAfterTheNorm) {
  const RandomNetwork random(hybrid_moe_options());
  for (const BackendOptions& options : {cpu(2), reference(true)}) {
    const std::unique_ptr<Model> model = load(random.network, options);
    const Text text = random_text(6, *model, false, 7);
    const std::span<const int32_t> tokens(text.tokens);
    const std::unique_ptr<State> a = model->new_state(), b = model->new_state(), c = model->new_state();
    const BatchItem batch[] = {{a.get(), tokens, LogitRows::last, 0, Hidden::before_norm},
                               {b.get(), tokens, LogitRows::all},
                               {c.get(), tokens, LogitRows::none, 0, Hidden::after_norm}};
    static std::vector<float> first;
    const RunOutput out = model->run(batch);
    EXPECT_EQ(out.rows, 7);
    if (first.empty()) first.assign(out.hidden.begin(), out.hidden.end());
    EXPECT_EQ(out.hidden.size(), 12 * size_t(model->hidden()));
    EXPECT_TRUE(same_bits(out.hidden, first));
  }
}

TEST(CpuHybrid, TheLastHiddenVectorIsTheSameAloneAndTheRowsBeforeItFillTheCaches) {
  const RandomNetwork random(hybrid_moe_options());
  for (const BackendOptions& options : {cpu(2), reference(true)}) {
    const std::unique_ptr<Model> model = load(random.network, options);
    const std::unique_ptr<Model> head = companion(*model, *random.network.mtp);
    for (Model* m : {model.get(), head.get()}) {
      const Text text = random_text(12, *m, m == head.get(), 7);
      const size_t width = size_t(m->hidden());
      const auto item = [&](State& state, size_t first, size_t n, bool last) {
        BatchItem item{&state, std::span(text.tokens).subspan(first, n), LogitRows::last, 0, Hidden::after_norm};
        if (!text.joined.empty()) item.joined = std::span(text.joined).subspan(first * width, n * width);
        item.hidden_last = last;
        return item;
      };
      const std::unique_ptr<State> all = m->new_state(), last = m->new_state();
      for (size_t first : {0, 6}) {
        const BatchItem batch[] = {item(*last, first, 6, true), item(*all, first, 6, false)};
        const RunOutput out = m->run(batch);
        ASSERT_EQ(out.hidden.size(), 7 * width);
        EXPECT_TRUE(same_bits(out.hidden.first(width), out.hidden.last(width)));
        EXPECT_TRUE(same_bits(out.logits.first(size_t(m->vocab())), out.logits.last(size_t(m->vocab()))));
      }
    }
  }
}

TEST(CpuHybrid, FewerColumnsAreTheFirstOfAll) {
  const RandomNetwork random(hybrid_moe_options());
  for (const BackendOptions& options : {cpu(1), cpu(2), reference(true)}) {
    const std::unique_ptr<Model> model = load(random.network, options);
    const Text text = random_text(12, *model, false, 7);
    const auto vocab = size_t(model->vocab());
    const std::unique_ptr<State> whole = model->new_state(), part = model->new_state(), other = model->new_state();
    const BatchItem all{whole.get(), text.tokens, LogitRows::all};
    const RunOutput out = model->run({&all, 1});
    ASSERT_EQ(size_t(out.columns), vocab);
    const std::vector<float> expected(out.logits.begin(), out.logits.end());
    BatchItem batch[] = {{part.get(), text.tokens, LogitRows::all}, {other.get(), text.tokens, LogitRows::last}};
    batch[0].columns = 100, batch[1].columns = 40;
    const RunOutput few = model->run(batch);
    ASSERT_EQ(few.columns, 112);  // whole blocks of 16, for both
    ASSERT_EQ(few.rows, 13);
    for (size_t r = 0; r < 13; ++r) {
      const auto row = std::span(expected).subspan(std::min(r, size_t{11}) * vocab, 112);
      EXPECT_TRUE(same_bits(few.logits.subspan(r * 112, 112), row)) << r;
    }
  }
}

TEST(CpuHybrid, OnlyTentativeRowsCanBeTakenBack) {
  const RandomNetwork random(hybrid_options());
  expect_only_tentative_rows_go_back(*load(random.network, cpu()));
}

TEST(CpuHybrid, AStoppedOrFailedRunLeavesTouchedStatesEmpty) {
  const RandomNetwork random(hybrid_options());
  const std::unique_ptr<Model> model = load(random.network, cpu(2));
  const Text text = random_text(700, *model, false, 6);
  const Rows expected = run_chunks(*model, text, 700, 700);
  for (bool fails : {false, true}) {
    for (int polls : {0, 1, 5}) {  // before anything; in the first piece; in the second
      const std::unique_ptr<State> a = model->new_state(), b = model->new_state(), c = model->new_state();
      for (State* state : {a.get(), b.get(), c.get()}) (void)run_rows(*model, *state, text, 0, 7, 2);
      const std::span<const int32_t> tokens(text.tokens);
      const BatchItem batch[] = {
          {a.get(), tokens.subspan(7, 500)}, {b.get(), tokens.subspan(7, 30)}, {c.get(), tokens.subspan(7, 3)}};
      int left = polls;
      auto cancelled = [&] {
        if (left-- > 0) return false;
        if (fails) throw std::runtime_error("the caller's own");
        return true;
      };
      if (fails) {
        EXPECT_THROW((void)model->run(batch, cancelled), std::runtime_error);
      } else {
        const RunOutput out = model->run(batch, cancelled);
        EXPECT_TRUE(out.stopped);
        EXPECT_EQ(out.rows, 0);
      }
      EXPECT_EQ(a->length(), polls == 0 ? 7 : 0);
      EXPECT_EQ(b->length(), polls == 0 ? 7 : 0);
      EXPECT_EQ(c->length(), polls < 5 && polls > 0 ? 7 : polls == 0 ? 7 : 0);
      for (State* state : {a.get(), b.get(), c.get()}) {
        const size_t at = size_t(state->length());
        EXPECT_TRUE(same_rows(*model, run_rows(*model, *state, text, at, 20), expected, at, 20));
      }
    }
  }
}

TEST(CpuHybrid, RecurrentMemoryIsInThePoolReservedAndGivenBack) {
  const RandomNetwork random(hybrid_options());
  BackendOptions options = cpu();
  options.context = 128;
  const std::unique_ptr<Model> one = load(random.network, options);
  const uint64_t state_bytes = one->memory()[1].bytes;  // two blocks of positions and one recurrent state
  // 2 layers x 4 heads x 32 x 32 floats and the histories; a block holds 2 attention layers of 2 heads of 64.
  const uint64_t block = 2 * 2 * 64 * 64 * 2 * 2;
  EXPECT_EQ(state_bytes % block, 0u);
  const int recurrent = int(state_bytes / block) - 2;
  EXPECT_GE(uint64_t(recurrent) * block, 2u * 4 * 32 * 32 * 4);
  options.kv_bytes = uint64_t(2 * recurrent + 3) * block;
  options.context = 0;
  const std::unique_ptr<Model> model = load(random.network, options);
  EXPECT_EQ(model->memory()[1].bytes, options.kv_bytes);
  EXPECT_EQ(model->context(), (recurrent + 3) * 64);
  const Text text = random_text(100, *model, false, 12);
  std::unique_ptr<State> a = model->new_state();
  const std::unique_ptr<State> b = model->new_state();
  (void)run_rows(*model, *a, text, 0, 100);
  EXPECT_TRUE(model->reserve(*b, 64).ok());
  const Status full = model->reserve(*b, 65);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, ErrorKind::out_of_memory);
  EXPECT_NE(full.error().message.find("0 of " + std::to_string(2 * recurrent + 3)), std::string::npos)
      << full.error().message;
  EXPECT_TRUE(model->reserve(*b, 0).ok());
  EXPECT_TRUE(model->reserve(*a, 92).ok());  // a third block: too few are left for another state
  const Status none = model->reserve(*b, 1);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find(std::to_string(recurrent) + " blocks of recurrent state"), std::string::npos)
      << none.error().message;
  EXPECT_THROW((void)run_rows(*model, *b, text, 0, 5), std::logic_error);
  EXPECT_EQ(b->length(), 0);
  a->truncate(0);
  EXPECT_FALSE(model->reserve(*b, 1).ok());  // still reserved
  EXPECT_TRUE(model->reserve(*a, 0).ok());
  EXPECT_TRUE(model->reserve(*b, model->context()).ok());

  options.kv_bytes = uint64_t(recurrent) * block;  // no room for a position
  Result<std::unique_ptr<Model>> small = load_model(random.network, options);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.error().kind, ErrorKind::out_of_memory);
  EXPECT_NE(small.error().message.find(std::to_string(uint64_t(recurrent + 1) * block)), std::string::npos)
      << small.error().message;
}

TEST(CpuHybrid, ACompanionSharesTheHeadAndHoldsWhatTheModelHolds) {
  const RandomNetwork random(hybrid_options());
  BackendOptions options = cpu();
  options.context = 640;
  const std::unique_ptr<Model> model = load(random.network, options);
  const std::unique_ptr<Model> head = companion(*model, *random.network.mtp);
  EXPECT_EQ(head->context(), 640);
  EXPECT_EQ(head->hidden(), 128);
  const std::unique_ptr<State> state = head->new_state();
  EXPECT_TRUE(head->reserve(*state, 640).ok());
  Network own = *random.network.mtp;
  const std::vector<std::byte> copy(own.head.weight.data.begin(), own.head.weight.data.end());
  own.head.weight.data = copy;
  const std::unique_ptr<Model> other = companion(*model, own);
  EXPECT_EQ(other->memory()[0].bytes - head->memory()[0].bytes, 304u * 128 * 4);  // the head in blocks of 16 outputs
  const Text text = random_text(20, *head, true, 3);
  EXPECT_TRUE(same_rows(*head, run_chunks(*other, text, 20, 20), run_chunks(*head, text, 20, 3), 0, 20));
}

TEST(CpuHybrid, ErrorsNameWhatHasNoKernel) {
  auto message = [](const Network& network) {
    Result<std::unique_ptr<Model>> model = load_model(network, cpu());
    return model.ok() ? std::string("loaded") : model.error().message;
  };
  RandomNetwork random(hybrid_moe_options());
  std::get<DeltaNet>(random.network.blocks[2].mixer).value_dim = 24;
  EXPECT_NE(message(random.network).find("block 2"), std::string::npos) << message(random.network);
  EXPECT_NE(message(random.network).find("24"), std::string::npos);

  RandomNetworkOptions narrow = hybrid_moe_options();
  narrow.expert_inner = 24;
  const RandomNetwork odd(narrow);
  EXPECT_NE(message(odd.network).find("blocks.0.experts.0.gate has 24 outputs"), std::string::npos)
      << message(odd.network);

  RandomNetwork mixed(hybrid_moe_options());
  RandomNetworkOptions other = hybrid_moe_options();
  other.format = Format::q8_0;
  const RandomNetwork quantised(other);
  std::get<Moe>(mixed.network.blocks[1].ffn).experts[3] = std::get<Moe>(quantised.network.blocks[1].ffn).experts[3];
  EXPECT_NE(message(mixed.network).find("blocks.1.experts.3.gate (q8_0"), std::string::npos) << message(mixed.network);

  RandomNetwork top(hybrid_moe_options());
  std::get<Moe>(top.network.blocks[0].ffn).top_k = 9;
  EXPECT_NE(message(top.network).find("block 0"), std::string::npos) << message(top.network);
}

}  // namespace
}  // namespace drafthorse
