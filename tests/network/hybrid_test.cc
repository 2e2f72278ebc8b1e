// Qwen's hybrid models and mixtures as Networks.

#include <gtest/gtest.h>

#include "support/tiny_models.h"

namespace drafthorse::test {
namespace {

// A small trained checkpoint of exactly the family's structure: bf16, norms stored minus one, a drafting head.
TEST(Hybrid, TheTrainedTinyCheckpointLoads) {
  const std::filesystem::path folder = std::filesystem::path(DRAFTHORSE_SOURCE) / ".cache/models/tiny-checkpoint";
  if (!std::filesystem::exists(folder / "config.json")) GTEST_SKIP() << folder << " is missing";
  const Network network = open_network(folder);
  ASSERT_EQ(network.blocks.size(), 8u);
  EXPECT_EQ(network.family, "qwen3_5_moe");
  EXPECT_TRUE(network.tied_head);
  for (size_t i = 0; i < 8; ++i) {
    const Block& block = network.blocks[i];
    EXPECT_EQ(std::holds_alternative<Attention>(block.mixer), i == 3 || i == 7);
    EXPECT_EQ(block.before_mixer.weight_offset, 1.0f);
    const Moe& moe = std::get<Moe>(block.ffn);
    EXPECT_EQ(moe.experts.size(), 16u);
    EXPECT_EQ(moe.top_k, 4);
    EXPECT_TRUE(moe.shared && moe.shared_gate && moe.normalised);
  }
  const DeltaNet& delta = std::get<DeltaNet>(network.blocks[0].mixer);
  EXPECT_EQ(delta.conv.shape, (std::vector<int64_t>{1024, 4}));
  EXPECT_EQ(delta.norm.weight_offset, 0.0f);
  EXPECT_TRUE(delta.decay_is_log);
  EXPECT_FALSE(delta.tiled_heads);
  const Attention& attention = std::get<Attention>(network.blocks[3].mixer);
  EXPECT_TRUE(attention.gated);
  EXPECT_EQ(attention.rope.dims, 16);
  EXPECT_EQ(attention.q.out_features(), 2 * 6 * 64);
  ASSERT_TRUE(network.mtp);
  EXPECT_EQ(network.mtp_hidden, Hidden::after_norm);
  EXPECT_TRUE(network.mtp_hidden_known);
  EXPECT_EQ(network.mtp->embedding.data.data(), network.embedding.data.data());
  EXPECT_EQ(network.mtp->head.weight.data.data(), network.head.weight.data.data());
  ASSERT_TRUE(network.mtp->joined_input);
  EXPECT_EQ(network.mtp->joined_input->fc.in_features(), 768);
  EXPECT_EQ(network.mtp->final_norm.weight_offset, 1.0f);
}

}  // namespace
}  // namespace drafthorse::test
