#include "cli/network_table.h"

#include <gtest/gtest.h>

namespace drafthorse {
namespace {

TensorView tensor(Format format, std::vector<int64_t> shape, size_t bytes) {
  static const std::vector<std::byte> storage(1 << 16);
  TensorView view;
  view.format = format;
  view.shape = std::move(shape);
  view.data = std::span(storage).first(bytes);
  return view;
}

Block block(Format down) {
  Block result;
  Attention attention;
  attention.heads = 4;
  attention.kv_heads = 2;
  attention.head_dim = 8;
  for (Linear* linear : {&attention.q, &attention.k, &attention.v, &attention.o})
    linear->weight = tensor(Format::q4_k, {32, 32}, 100);
  result.mixer = attention;
  Mlp mlp;
  mlp.gate.weight = mlp.up.weight = tensor(Format::q4_k, {64, 32}, 200);
  mlp.down.weight = tensor(down, {32, 64}, 300);
  result.ffn = mlp;
  return result;
}

TEST(NetworkTable, GroupsEqualBlocks) {
  Network network;
  network.blocks = {block(Format::q6_k), block(Format::q4_k), block(Format::q6_k), block(Format::q4_k),
                    block(Format::q4_k)};
  std::vector<BlockKind> kinds = block_kinds(network);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(ranges_text(kinds[0].blocks), "0, 2");
  EXPECT_EQ(ranges_text(kinds[1].blocks), "1, 3-4");
  EXPECT_EQ(kinds[0].bytes, 4 * 100u + 2 * 200u + 300u);
}

TEST(NetworkTable, CountsEveryExpert) {
  Network network;
  Block mixed = block(Format::q4_k);
  Moe moe;
  moe.router.weight = tensor(Format::f32, {8, 32}, 50);
  moe.experts.assign(8, std::get<Mlp>(mixed.ffn));
  moe.top_k = 2;
  moe.shared = std::get<Mlp>(mixed.ffn);
  mixed.ffn = moe;
  DeltaNet delta;
  for (Linear* linear : {&delta.qkv, &delta.z, &delta.b, &delta.a, &delta.out})
    linear->weight = tensor(Format::q4_k, {32, 32}, 10);
  delta.conv = delta.decay = delta.dt_bias = tensor(Format::f32, {4}, 1);
  delta.value_heads = 4;
  mixed.mixer = delta;
  network.blocks = {mixed};
  const std::vector<BlockKind> kinds = block_kinds(network);
  ASSERT_EQ(kinds.size(), 1u);
  const uint64_t mlp = 2 * 200 + 300;
  EXPECT_EQ(kinds[0].bytes, 5 * 10u + 3 + 50 + 8 * mlp + mlp);
  EXPECT_NE(kinds[0].summary.find("2 of 8 experts"), std::string::npos) << kinds[0].summary;
  EXPECT_NE(kinds[0].summary.find("4 value heads"), std::string::npos) << kinds[0].summary;
}

TEST(NetworkTable, FormatsSayTheirBits) {
  TensorView view = tensor(Format::affine, {2, 64}, 10);
  view.bits = 4;
  view.group_size = 64;
  EXPECT_EQ(format_text(view), "affine 4-bit group 64");
  EXPECT_EQ(format_text(tensor(Format::q4_1, {2, 32}, 10)), "q4_1");
}

}  // namespace
}  // namespace drafthorse
