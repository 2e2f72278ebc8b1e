// What the reference means by DeltaNet, mixtures, gated attention and drafting heads.

#include "backend/reference/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <numeric>

#include "backend/reference/delta_net.h"
#include "backend/reference/moe.h"
#include "backend/support/random_network.h"
#include "backend/support/rollback.h"
#include "backend/support/run_model.h"

namespace drafthorse {
namespace {

using namespace drafthorse::test;  // NOLINT: the tests' own helpers

std::unique_ptr<Model> companion(Model& model, const Network& network) {
  Result<std::unique_ptr<Model>> head = model.load_companion(network);
  if (!head) throw std::runtime_error(head.error().message);
  return std::move(*head);
}

reference::RowsOf random_rows(int n, int width, unsigned seed) {
  Random random(seed);
  reference::RowsOf rows(static_cast<size_t>(n), reference::Row(static_cast<size_t>(width)));
  for (reference::Row& row : rows) {
    for (float& v : row) v = random.normal();
  }
  return rows;
}

void expect_near(const reference::RowsOf& expected, const reference::RowsOf& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t r = 0; r < expected.size(); ++r) {
    ASSERT_EQ(expected[r].size(), got[r].size());
    for (size_t i = 0; i < expected[r].size(); ++i) ASSERT_NEAR(expected[r][i], got[r][i], 2e-6) << r << ", " << i;
  }
}

// Matrices of f32 in another order of rows or columns: entry i comes from order[i].
class Reordered {
 public:
  TensorView rows(const TensorView& view, const std::vector<int>& order) {
    return gather(view, order, count(int(view.columns())));
  }
  TensorView columns(const TensorView& view, const std::vector<int>& order) {
    return gather(view, count(int(view.rows())), order);
  }
  static std::vector<int> count(int n) {
    std::vector<int> numbers(static_cast<size_t>(n));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  // The order of elements that has whole heads in the order `heads`.
  static std::vector<int> elements(const std::vector<int>& heads, int width) {
    std::vector<int> order;
    for (int head : heads) {
      for (int i = 0; i < width; ++i) order.push_back(head * width + i);
    }
    return order;
  }

 private:
  TensorView gather(const TensorView& view, const std::vector<int>& rows, const std::vector<int>& columns) {
    const size_t width = view.shape.size() == 1 ? 1 : size_t(view.columns());
    std::vector<float> values(size_t(view.elements())), picked;
    if (!dequantise(view, 0, view.rows(), values)) throw std::runtime_error(view.name);
    if (view.shape.size() == 1) {
      for (int row : rows) picked.push_back(values[size_t(row)]);
    } else {
      for (int row : rows) {
        for (int column : columns) picked.push_back(values[size_t(row) * width + size_t(column)]);
      }
    }
    OwnedTensor& tensor = storage_.emplace_back();
    tensor.shape_and_format = view;
    tensor.data = encode_plain(Format::f32, picked);
    return tensor.view();
  }
  std::deque<OwnedTensor> storage_;
};

// Small ones: the reference takes its time.
std::vector<RandomNetworkOptions> hybrids() {
  std::vector<RandomNetworkOptions> all = {hybrid_options(), hybrid_moe_options(), hybrid_options()};
  for (RandomNetworkOptions& o : all) {
    o.hidden = o.inner = o.expert_inner = 32, o.vocab = 48, o.heads = 2, o.kv_heads = 1,
    o.head_dim = o.key_dim = o.value_dim = 16, o.rope_dims = 4;
  }
  all[1].shared_gate = false, all[1].normalised = false;
  all[2].value_heads = 6, all[2].tiled_heads = all[2].sigmoid_gate = true, all[2].kernel = 2;
  return all;
}

TEST(Reference, HybridRowsDoNotDependOnChunks) {
  for (const RandomNetworkOptions& options : hybrids()) {
    const RandomNetwork random(options);
    for (bool quantised : {false, true}) {
      const std::unique_ptr<Model> model = load(random.network, test::reference(quantised));
      const Text text = random_text(70, *model, false, 3);
      const std::unique_ptr<State> whole = model->new_state();
      const Rows expected = run_rows(*model, *whole, text, 0, 70);
      for (float logit : expected.logits) ASSERT_TRUE(std::isfinite(logit));
      for (size_t chunk : {1, 2, 3, 64}) {
        const std::unique_ptr<State> state = model->new_state();
        for (size_t at = 0; at < 70; at += chunk) {
          const size_t n = std::min<size_t>(chunk, 70 - at);
          ASSERT_TRUE(same_rows(*model, run_rows(*model, *state, text, at, n), expected, at, n)) << at << " by " << n;
        }
      }
    }
  }
}

TEST(Reference, RollbackIsAFreshRun) {
  unsigned seed = 1;
  for (const RandomNetworkOptions& options : hybrids()) {
    const RandomNetwork random(options);
    for (bool quantised : {false, true}) {
      const std::unique_ptr<Model> model = load(random.network, test::reference(quantised));
      expect_rollback_is_a_fresh_run(*model, false, 200, ++seed);
      if (!quantised) continue;
      const std::unique_ptr<Model> head = companion(*model, *random.network.mtp);
      expect_rollback_is_a_fresh_run(*head, true, 200, ++seed);
    }
  }
}

// S = g S + beta (v - g S k) k^T and y = S q, spelt out in double from the same projections.
TEST(Reference, DeltaNetIsTheGatedDeltaRule) {
  for (const RandomNetworkOptions& options : hybrids()) {
    const RandomNetwork random(options);
    const auto& part = std::get<DeltaNet>(random.network.blocks[0].mixer);
    const reference::RowsOf x = random_rows(12, options.hidden, 4);
    const reference::Mode fp32{false};
    const auto u = reference::linear(part.qkv, x, fp32), z = reference::linear(part.z, x, fp32);
    const auto b = reference::linear(part.b, x, fp32), a = reference::linear(part.a, x, fp32);
    const auto conv = reference::read_vector(part.conv), log = reference::read_vector(part.decay);
    const auto dt_bias = reference::read_vector(part.dt_bias), weight = reference::read_vector(*part.norm.weight);
    const int dk = part.key_dim, dv = part.value_dim, keys = part.key_heads * dk;
    const auto mixed = [&](int t, int channel) {
      double sum = 0;
      for (int j = 0; j < part.kernel; ++j) {
        const int row = t - (part.kernel - 1) + j;
        if (row >= 0) sum += double(conv[channel * part.kernel + j]) * u[row][channel];
      }
      return sum / (1 + std::exp(-sum));
    };
    reference::RowsOf y(x.size(), reference::Row(size_t(part.value_heads * dv)));
    for (int h = 0; h < part.value_heads; ++h) {
      const int key_head = part.tiled_heads ? h % part.key_heads : h / (part.value_heads / part.key_heads);
      std::vector<double> state(size_t(dv * dk));
      for (int t = 0; t < int(x.size()); ++t) {
        std::vector<double> q, k, out(static_cast<size_t>(dv));
        double qq = 1e-6, kk = 1e-6, square = 0;
        for (int i = 0; i < dk; ++i) {
          q.push_back(mixed(t, key_head * dk + i)), k.push_back(mixed(t, keys + key_head * dk + i));
          qq += q[i] * q[i], kk += k[i] * k[i];
        }
        for (int i = 0; i < dk; ++i) q[i] /= std::sqrt(qq * dk), k[i] /= std::sqrt(kk);
        const double beta = 1 / (1 + std::exp(-double(b[t][h])));
        const double g = std::exp(-std::exp(double(log[h])) * std::log1p(std::exp(double(a[t][h]) + dt_bias[h])));
        for (int d = 0; d < dv; ++d) {
          double memory = 0;
          for (int i = 0; i < dk; ++i) memory += g * state[d * dk + i] * k[i];
          const double delta = beta * (mixed(t, 2 * keys + h * dv + d) - memory);
          for (int i = 0; i < dk; ++i) {
            state[d * dk + i] = g * state[d * dk + i] + delta * k[i];
            out[d] += state[d * dk + i] * q[i];
          }
          square += out[d] * out[d] / dv;
        }
        for (int d = 0; d < dv; ++d) {
          const double gate = z[t][h * dv + d], s = 1 / (1 + std::exp(-gate));
          const double act = options.sigmoid_gate ? s : gate * s;
          y[t][h * dv + d] = float(out[d] / std::sqrt(square + part.norm.eps) * weight[d] * act);
        }
      }
    }
    reference::DeltaHistory history = {reference::empty_state(part)};
    expect_near(reference::linear(part.out, y, fp32), reference::delta_net(part, x, 0, history, fp32));
  }
}

// GGUF has value head j of key head j % key_heads; elsewhere the heads of one key head lie side by side.
TEST(Reference, TiledAndGroupedValueHeadsAreTheSameModel) {
  for (int ratio : {1, 2, 3}) {
    RandomNetworkOptions options = hybrids()[0];
    options.key_heads = 3, options.value_heads = 3 * ratio;
    const RandomNetwork random(options);
    const auto& grouped = std::get<DeltaNet>(random.network.blocks[0].mixer);
    std::vector<int> heads;
    for (int j = 0; j < options.value_heads; ++j) heads.push_back(j % 3 * ratio + j / 3);
    const std::vector<int> values = Reordered::elements(heads, options.value_dim);
    const int keys = 2 * options.key_heads * options.key_dim;
    std::vector<int> channels = Reordered::count(keys);
    for (int v : values) channels.push_back(keys + v);
    Reordered reordered;
    DeltaNet tiled = grouped;
    tiled.tiled_heads = true;
    tiled.qkv.weight = reordered.rows(grouped.qkv.weight, channels);
    tiled.conv = reordered.rows(grouped.conv, channels);
    tiled.z.weight = reordered.rows(grouped.z.weight, values);
    tiled.b.weight = reordered.rows(grouped.b.weight, heads);
    tiled.a.weight = reordered.rows(grouped.a.weight, heads);
    tiled.decay = reordered.rows(grouped.decay, heads);
    tiled.dt_bias = reordered.rows(grouped.dt_bias, heads);
    tiled.out.weight = reordered.columns(grouped.out.weight, values);
    const reference::RowsOf x = random_rows(20, options.hidden, 3);
    reference::DeltaHistory a = {reference::empty_state(grouped)}, b = {reference::empty_state(tiled)};
    const reference::RowsOf expected = reference::delta_net(grouped, x, 0, a, {false});
    expect_near(expected, reference::delta_net(tiled, x, 0, b, {false}));
    if (ratio == 1) continue;
    tiled.tiled_heads = false;  // the wrong order is another model
    b = {reference::empty_state(tiled)};
    EXPECT_GT(std::abs(expected[3][0] - reference::delta_net(tiled, x, 0, b, {false})[3][0]), 1e-3);
  }
}

// Heads of one group may change places, each with its gate beside its query.
TEST(Reference, GatesLieBesideTheirQueries) {
  const RandomNetworkOptions options = hybrids()[0];
  const RandomNetwork random(options);
  const auto& part = std::get<Attention>(random.network.blocks[1].mixer);
  const std::vector<int> heads = {1, 0};
  Reordered reordered;
  Attention other = part;
  other.q.weight = reordered.rows(part.q.weight, Reordered::elements(heads, 2 * part.head_dim));
  other.o.weight = reordered.columns(part.o.weight, Reordered::elements(heads, part.head_dim));
  const reference::RowsOf x = random_rows(9, options.hidden, 5);
  reference::Cache a, b;
  expect_near(reference::attention(part, x, 0, a, {false}), reference::attention(other, x, 0, b, {false}));
}

TEST(Reference, ExpertsAreRankedByLogitThenByIndex) {
  Moe part;
  part.top_k = 3;
  const std::vector<float> logits = {1, 3, 2, 3, -INFINITY, 3};
  const std::vector<reference::Choice> equal = reference::choose_experts(part, logits);
  ASSERT_EQ(equal.size(), 3u);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(equal[rank].expert, int(2 * rank + 1));
    EXPECT_FLOAT_EQ(equal[rank].weight, 1.0f / 3);
  }
  part.normalised = false;
  const std::vector<reference::Choice> of_all = reference::choose_experts(part, logits);
  const double sum = 3 + std::exp(-1.0) + std::exp(-2.0);
  for (const reference::Choice& choice : of_all) EXPECT_NEAR(choice.weight, 1 / sum, 1e-7);
  part.top_k = 6, part.normalised = true;
  const std::vector<reference::Choice> all = reference::choose_experts(part, logits);
  EXPECT_EQ(all[3].expert, 2);
  EXPECT_EQ(all[5].expert, 4);
  EXPECT_EQ(all[5].weight, 0);
  part.top_k = 1;
  EXPECT_EQ(reference::choose_experts(part, logits)[0].weight, 1);
}

TEST(Reference, AMixtureIsTheWeightedSumOfItsExpertsAndTheSharedOne) {
  for (bool gate : {true, false}) {
    RandomNetworkOptions options = hybrids()[1];
    options.shared_gate = gate, options.normalised = gate, options.top_k = 3;
    const RandomNetwork random(options);
    const auto& part = std::get<Moe>(random.network.blocks[0].ffn);
    const reference::RowsOf x = random_rows(15, options.hidden, 6);
    for (const reference::Mode mode : {reference::Mode{false}, reference::Mode{true}}) {
      const reference::RowsOf together = reference::moe(part, x, mode);
      reference::RowsOf expected;
      for (const reference::Row& row : x) {  // alone: no other row beside it at its experts
        EXPECT_TRUE(same_bits(reference::moe(part, {row}, mode)[0], together[expected.size()]));
        const reference::Row logits = reference::linear(part.router, {row}, mode)[0];
        std::vector<double> sum(row.size());
        const auto add = [&](const Mlp& expert, double weight) {
          const reference::Row y = reference::mlp(expert, {row}, mode)[0];
          for (size_t i = 0; i < y.size(); ++i) sum[i] += weight * y[i];
        };
        std::vector<float> sorted = logits;
        std::sort(sorted.rbegin(), sorted.rend());
        double total = 0;
        for (size_t e = 0; e < logits.size(); ++e) {
          if (!gate || logits[e] >= sorted[2]) total += std::exp(double(logits[e]));
        }
        for (size_t e = 0; e < logits.size(); ++e) {
          if (logits[e] >= sorted[2]) add(part.experts[e], std::exp(double(logits[e])) / total);
        }
        const double shared =
            gate ? 1 / (1 + std::exp(-double(reference::linear(*part.shared_gate, {row}, mode)[0][0]))) : 1;
        add(*part.shared, shared);
        expected.emplace_back(sum.begin(), sum.end());
      }
      expect_near(expected, together);
    }
  }
}

TEST(Reference, ADraftingHeadJoinsTheEmbeddingAndTheHiddenVector) {
  const RandomNetwork random(hybrids()[0]);
  const std::unique_ptr<Model> model = load(random.network, test::reference(false));
  const std::unique_ptr<Model> head = companion(*model, *random.network.mtp);
  EXPECT_EQ(head->hidden(), model->hidden());
  const Text text = random_text(8, *head, true, 9);
  const std::unique_ptr<State> state = head->new_state();
  const Rows expected = run_rows(*head, *state, text, 0, 8);

  Reordered reordered;
  Network swapped = *random.network.mtp;
  swapped.joined_input->embedding_first = false;
  const int hidden = swapped.hidden;
  swapped.joined_input->fc.weight =
      reordered.columns(swapped.joined_input->fc.weight, Reordered::elements({1, 0}, hidden));
  const std::unique_ptr<Model> other = companion(*model, swapped);
  const std::unique_ptr<State> again = other->new_state();
  expect_near({expected.logits}, {run_rows(*other, *again, text, 0, 8).logits});

  Text without = text;
  without.joined.clear();
  EXPECT_THROW((void)run_rows(*head, *state, without, 0, 8), std::logic_error);
  EXPECT_THROW((void)run_rows(*model, *model->new_state(), text, 0, 8), std::logic_error);
}

TEST(Reference, TensorsThatCannotBeReadAreNamed) {
  const auto error_of = [](auto spoil) {
    RandomNetworkOptions options = hybrids()[1];
    options.shared_gate = true;
    const RandomNetwork random(options);
    Network network = random.network;
    spoil(network);
    Result<std::unique_ptr<Model>> model = load_model(network, test::reference(true));
    return model ? std::string("loaded") : model.error().message;
  };
  const auto expect_named = [&](const char* block, const char* tensor, auto spoil) {
    SCOPED_TRACE(tensor);
    const std::string message = error_of(spoil);
    EXPECT_NE(message.find(block), std::string::npos) << message;
    EXPECT_NE(message.find(tensor), std::string::npos) << message;
  };
  expect_named("block 2", "blocks.2.conv",
               [](Network& n) { std::get<DeltaNet>(n.blocks[2].mixer).conv.format = Format::i32; });
  expect_named("block 0", "blocks.0.dt_bias",
               [](Network& n) { std::get<DeltaNet>(n.blocks[0].mixer).dt_bias.data = {}; });
  expect_named("block 0", "blocks.0.out",
               [](Network& n) { std::get<DeltaNet>(n.blocks[0].mixer).out.weight.format = Format::i64; });
  expect_named("block 3", "blocks.3.router",
               [](Network& n) { std::get<Moe>(n.blocks[3].ffn).router.weight.format = Format::i32; });
  expect_named("block 1", "blocks.1.experts.7.down",
               [](Network& n) { std::get<Moe>(n.blocks[1].ffn).experts[7].down.weight.format = Format::i32; });
  expect_named("block 1", "blocks.1.shared_gate",
               [](Network& n) { std::get<Moe>(n.blocks[1].ffn).shared_gate->weight.format = Format::i32; });
  const RandomNetwork random(hybrids()[0]);
  const std::unique_ptr<Model> model = load(random.network, test::reference(true));
  Network head = *random.network.mtp;
  head.joined_input->fc.weight.format = Format::i32;
  Result<std::unique_ptr<Model>> bad = model->load_companion(head);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("mtp.fc"), std::string::npos) << bad.error().message;
}

TEST(Reference, OnlyTentativeRowsCanBeTakenBack) {
  const RandomNetwork random(hybrid_options());
  const std::unique_ptr<Model> model = load(random.network, test::reference(false));
  expect_only_tentative_rows_go_back(*model);

  RandomNetworkOptions plain;
  const RandomNetwork attention(plain);
  const std::unique_ptr<Model> other = load(attention.network, test::reference(false));
  const std::unique_ptr<State> positions = other->new_state();
  (void)run_rows(*other, *positions, random_text(10, *other, false, 5), 0, 10, 2);
  EXPECT_EQ(positions->earliest(), 1);
  positions->truncate(1);
  EXPECT_EQ(positions->length(), 1);
}

TEST(Reference, AStoppedRunLeavesTouchedRecurrentStatesEmpty) {
  const RandomNetwork random(hybrid_options());
  const std::unique_ptr<Model> model = load(random.network, test::reference(false));
  const Text text = random_text(20, *model, false, 6);
  const std::unique_ptr<State> fresh = model->new_state();
  const Rows expected = run_rows(*model, *fresh, text, 0, 20);
  for (int polls : {0, 1, 5}) {  // before anything, after a block of the first item, after one of the second
    const std::unique_ptr<State> a = model->new_state(), b = model->new_state();
    (void)run_rows(*model, *a, text, 0, 5, 2);
    (void)run_rows(*model, *b, text, 0, 7);
    const std::span<const int32_t> tokens(text.tokens);
    const BatchItem batch[] = {{a.get(), tokens.subspan(5, 3)}, {b.get(), tokens.subspan(7, 3)}};
    int left = polls;
    const RunOutput out = model->run(batch, [&] { return left-- == 0; });
    EXPECT_TRUE(out.stopped);
    EXPECT_EQ(out.rows, 0);
    EXPECT_EQ(a->length(), polls == 0 ? 5 : 0);
    EXPECT_EQ(b->length(), polls < 5 ? 7 : 0);
    for (State* state : {a.get(), b.get()}) {
      const size_t at = size_t(state->length());
      EXPECT_TRUE(same_rows(*model, run_rows(*model, *state, text, at, 20 - at), expected, at, 20 - at));
    }
  }
}

TEST(Reference, HiddenVectorsComeInItemOrderBeforeOrAfterTheNorm) {
  const RandomNetwork random(hybrid_options());
  const std::unique_ptr<Model> model = load(random.network, test::reference(false));
  const size_t hidden = size_t(model->hidden());
  const Text text = random_text(6, *model, false, 7);
  const std::unique_ptr<State> a = model->new_state(), b = model->new_state(), c = model->new_state();
  const std::span<const int32_t> tokens(text.tokens);
  const BatchItem batch[] = {{a.get(), tokens, LogitRows::last, 0, Hidden::before_norm},
                             {b.get(), tokens, LogitRows::all},
                             {c.get(), tokens, LogitRows::none, 0, Hidden::after_norm}};
  const RunOutput out = model->run(batch);
  EXPECT_EQ(out.rows, 1 + 6);
  ASSERT_EQ(out.logits.size(), 7 * size_t(model->vocab()));
  ASSERT_EQ(out.hidden.size(), 12 * hidden);
  const std::vector<float> before(out.hidden.begin(), out.hidden.begin() + std::ptrdiff_t(6 * hidden));
  for (size_t r = 0; r < 6; ++r) {
    std::vector<float> row(before.begin() + std::ptrdiff_t(r * hidden),
                           before.begin() + std::ptrdiff_t((r + 1) * hidden));
    reference::norm(random.network.final_norm, row);
    EXPECT_TRUE(same_bits(row, out.hidden.subspan((6 + r) * hidden, hidden)));
  }
}

}  // namespace
}  // namespace drafthorse
