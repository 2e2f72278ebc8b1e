// The tiny checkpoints that other rooms' tests use open in every container and format.

#include "support/tiny_models.h"

#include <gtest/gtest.h>

namespace drafthorse::test {
namespace {

const char* const kFamilies[] = {"llama", "mistral", "qwen2", "qwen3"};

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  const Status status = dequantise(tensor, 0, tensor.rows(), values);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return values;
}

TEST(TinyModels, HuggingFaceAndGgufHoldTheSameModel) {
  for (const char* family : kFamilies) {
    TempFolder folder;
    const TinyModel model{.family = family, .tied = false};
    const Network hf = open_network(write_tiny_hf(folder / "hf", model));
    const Network gguf = open_network(write_tiny_gguf(folder / "m.gguf", model, Format::f32));
    ASSERT_EQ(hf.blocks.size(), gguf.blocks.size());
    EXPECT_EQ(hf.family, gguf.family);
    EXPECT_EQ(values_of(hf.embedding), values_of(gguf.embedding));
    EXPECT_EQ(values_of(hf.head.weight), values_of(gguf.head.weight));
    const auto& a = std::get<Attention>(hf.blocks[1].mixer);
    const auto& b = std::get<Attention>(gguf.blocks[1].mixer);
    EXPECT_EQ(values_of(a.v.weight), values_of(b.v.weight));
    EXPECT_EQ(a.rope.inv_freq, b.rope.inv_freq);
    EXPECT_EQ(a.q.bias.has_value(), b.q.bias.has_value());
    // The rows of q differ by the permutation exactly where the rope differs.
    const bool permuted = b.rope.interleaved;
    EXPECT_EQ(permuted, hf.family == "llama");
    auto q = values_of(a.q.weight);
    if (permuted) q = permute_rows(q, model.heads * model.head_dim, model.heads);
    EXPECT_EQ(q, values_of(b.q.weight));
  }
}

TEST(TinyModels, EveryGgufFormatOpens) {
  const TinyModel model{.hidden = 256, .heads = 4, .kv_heads = 2, .head_dim = 64, .intermediate = 512, .vocab = 300};
  for (const Format format : {Format::f32, Format::f16, Format::bf16, Format::q4_0, Format::q4_1, Format::q5_0,
                              Format::q5_1, Format::q8_0, Format::q2_k, Format::q3_k, Format::q4_k, Format::q5_k,
                              Format::q6_k, Format::iq4_nl, Format::iq4_xs, Format::mxfp4_blocks}) {
    TempFolder folder;
    const Network network = open_network(write_tiny_gguf(folder / "m.gguf", model, format));
    const TensorView& down = std::get<Mlp>(network.blocks[0].ffn).down.weight;
    EXPECT_EQ(down.format, format);
    EXPECT_NEAR(rms(down) * std::sqrt(512.0), 1.2, 0.4) << name(format);
  }
}

TEST(TinyModels, EveryMlxPackOpens) {
  const TinyModel model{.hidden = 128, .heads = 4, .kv_heads = 2, .head_dim = 32, .intermediate = 256};
  std::vector<TinyPack> packs = {{Format::mxfp4, 4, 32}, {Format::mxfp8, 8, 32}, {Format::nvfp4, 4, 16}};
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group_size : {32, 64, 128}) packs.push_back({Format::affine, bits, group_size});
  }
  packs.push_back({Format::affine, 4, 64, Format::f16});
  packs.push_back({Format::affine, 4, 64, Format::f32});
  for (const TinyPack& pack : packs) {
    TempFolder folder;
    const Network network = open_network(write_tiny_mlx(folder / "mlx", model, pack));
    const TensorView& down = std::get<Mlp>(network.blocks[0].ffn).down.weight;
    EXPECT_EQ(down.format, pack.mode);
    EXPECT_EQ(down.bits, pack.bits);
    EXPECT_EQ(down.group_size, pack.group_size);
    EXPECT_EQ(down.shape, (std::vector<int64_t>{128, 256}));
    EXPECT_NEAR(rms(down) * std::sqrt(256.0), 1.2, 0.5) << name(pack.mode) << " " << pack.bits;
    EXPECT_TRUE(network.tied_head);
  }
}

}  // namespace
}  // namespace drafthorse::test
