// The safetensors reader, folders of it, and MLX's quantised triples: round trips and malformed files.

#include "weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fmt/format.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "support/random_weights.h"
#include "support/temp_folder.h"
#include "support/write_safetensors.h"

namespace drafthorse::test {
namespace {

using testing::HasSubstr;

std::string parse_error(const Bytes& bytes) {
  const auto result = parse_safetensors(bytes);
  return result.ok() ? "" : result.error().message;
}

// The error of a header text before `size` bytes of data.
std::string header_error(const std::string& header, size_t size = 64) {
  return parse_error(SafetensorsWriter::join(header, Bytes(size)));
}

TEST(Safetensors, TensorsRoundTrip) {
  EXPECT_TRUE(rc::check([](uint64_t seed) {
    constexpr Format kFormats[] = {Format::f32, Format::f16, Format::bf16, Format::i32,    Format::u32,
                                   Format::u8,  Format::i8,  Format::i64,  Format::f8_e4m3};
    Random random(seed);
    SafetensorsWriter writer;
    std::vector<Bytes> contents;
    std::vector<std::vector<int64_t>> shapes;
    std::vector<Format> formats;
    const int count = random.below(6);
    for (int i = 0; i < count; ++i) {
      formats.push_back(kFormats[random.below(static_cast<int>(std::size(kFormats)))]);
      std::vector<int64_t> shape;
      for (int d = random.below(4); d > 0; --d) shape.push_back(random.below(5));  // scalars and empty tensors too
      contents.push_back(random_bytes(random, byte_count(formats.back(), shape).value()));
      writer.add("t" + std::to_string(i), formats.back(), shape, contents.back());
      shapes.push_back(shape);
    }
    const Bytes bytes = writer.bytes();
    const auto parsed = parse_safetensors(bytes);
    RC_ASSERT(parsed.ok());
    RC_ASSERT(parsed->size() == contents.size());
    for (const TensorView& tensor : *parsed) {
      const size_t i = std::stoul(tensor.name.substr(1));
      RC_ASSERT(tensor.format == formats[i]);
      RC_ASSERT(tensor.shape == shapes[i]);
      RC_ASSERT(std::equal(tensor.data.begin(), tensor.data.end(), contents[i].begin(), contents[i].end()));
    }
  }));
}

TEST(Safetensors, HeaderErrors) {
  EXPECT_THAT(parse_error(Bytes(7)), HasSubstr("fewer than 8 bytes"));
  Bytes huge;
  append(huge, ~uint64_t{0});
  EXPECT_THAT(parse_error(huge), HasSubstr("expected a header of 18446744073709551615 bytes, but 0 bytes follow"));
  EXPECT_THAT(header_error("[]"), HasSubstr("expected a JSON object as header"));
  EXPECT_THAT(header_error("{\"a\":"), HasSubstr("expected a JSON object as header"));
  EXPECT_THAT(header_error(std::string(100'000, '[')), HasSubstr("expected a JSON object as header"));
  EXPECT_THAT(header_error(R"({"a":1})"), HasSubstr("tensor \"a\": expected an object"));
  EXPECT_EQ(header_error(R"({"__metadata__":{"format":"pt"}})"), "");
}

TEST(Safetensors, EntryErrors) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return header_error(R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
                        "}}");
  };
  EXPECT_EQ(entry("F32", "[2,4]", "[0,32]"), "");
  EXPECT_THAT(entry("F64", "[2]", "[0,16]"), HasSubstr("tensor \"a\": dtype F64 has no reader; supported are F32"));
  EXPECT_THAT(entry("F32", "[2,4]", "[0,28]"), HasSubstr("expected 32 bytes for f32 [2, 4], found 28"));
  EXPECT_THAT(entry("F32", "[2,-4]", "[0,32]"), HasSubstr("expected a shape of non-negative integers"));
  EXPECT_THAT(entry("F32", "[2.5]", "[0,10]"), HasSubstr("expected a shape of non-negative integers"));
  EXPECT_THAT(entry("F32", "\"x\"", "[0,32]"), HasSubstr("expected a shape"));
  EXPECT_THAT(entry("F32", "[4294967296,4294967296]", "[0,32]"), HasSubstr("no valid number of elements"));
  EXPECT_THAT(entry("F32", "[4611686018427387904]", "[0,32]"), HasSubstr("no valid number of bytes"));
  EXPECT_THAT(entry("F32", "[16]", "[4,68]"), HasSubstr("its bytes 4 to 68 are outside the 64 bytes of data"));
  EXPECT_THAT(entry("F32", "[0]", "[8,0]"), HasSubstr("outside"));
  EXPECT_THAT(entry("F32", "[1]", "[9223372036854775807,9223372036854775807]"), HasSubstr("outside"));
  EXPECT_THAT(entry("F32", "[1]", "[0,4,8]"), HasSubstr("expected two data_offsets"));
  EXPECT_THAT(header_error(R"({"a":{"shape":[1],"data_offsets":[0,4]}})"), HasSubstr("tensor \"a\": expected a dtype"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},
                               "b":{"dtype":"F32","shape":[4],"data_offsets":[12,28]}})"),
              HasSubstr("tensors \"a\" and \"b\" overlap"));
}

// A folder under construction: config.json and one file unless a test writes others.
struct Folder {
  TempFolder temp;
  SafetensorsWriter writer;
  std::string config = "{}";

  Result<std::shared_ptr<const Checkpoint>> open() {
    save_text(temp / "config.json", config);
    writer.save_as(temp / "model.safetensors");
    return Checkpoint::open(temp.path());
  }
  std::string error() {
    const auto opened = open();
    return opened.ok() ? "" : opened.error().message;
  }
  // A quantised module of [rows, words] and [rows, groups].
  void add_module(const std::string& path, int64_t rows, int64_t words, int64_t groups, Format scales = Format::bf16) {
    writer.add(path + ".weight", Format::u32, {rows, words}, Bytes(static_cast<size_t>(4 * rows * words)));
    const Bytes values(static_cast<size_t>(rows * groups * block_layout(scales).bytes));
    writer.add(path + ".scales", scales, {rows, groups}, values);
    if (scales != Format::u8) writer.add(path + ".biases", scales, {rows, groups}, values);
  }
};

void expect_geometry(const Checkpoint& checkpoint, const char* name, Format mode, int bits, int group_size,
                     int64_t in) {
  const TensorView* tensor = checkpoint.find(name);
  ASSERT_NE(tensor, nullptr) << name;
  EXPECT_EQ(tensor->format, mode) << name;
  EXPECT_EQ(tensor->bits, bits) << name;
  EXPECT_EQ(tensor->group_size, group_size) << name;
  EXPECT_EQ(tensor->columns(), in) << name;
  EXPECT_EQ(checkpoint.find(std::string(name).substr(0, std::string(name).rfind('.')) + ".scales"), nullptr);
}

TEST(MlxPack, MixedBitsAreSolvedFromShapes) {
  Folder folder;
  folder.config = R"({"quantization":{"group_size":64,"bits":4,"mlp.gate":{"group_size":32,"bits":8}}})";
  folder.add_module("embed", 8, 16, 2);       // 128 columns, 4 bits at 64: as declared
  folder.add_module("attn.six", 8, 24, 2);    // 6 bits at 64: no entry, solved
  folder.add_module("attn.three", 8, 12, 2);  // 3 bits at 64
  folder.add_module("mlp.gate", 8, 32, 4);    // its own entry
  folder.add_module("attn.sixteen", 8, 16, 8, Format::u8);
  folder.add_module("attn.mx", 8, 16, 4, Format::u8);
  folder.add_module("attn.mx8", 8, 32, 4, Format::u8);
  folder.writer.add("norm.weight", Format::bf16, {64}, Bytes(128));
  const auto opened = folder.open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  expect_geometry(**opened, "embed.weight", Format::affine, 4, 64, 128);
  expect_geometry(**opened, "attn.six.weight", Format::affine, 6, 64, 128);
  expect_geometry(**opened, "attn.three.weight", Format::affine, 3, 64, 128);
  expect_geometry(**opened, "mlp.gate.weight", Format::affine, 8, 32, 128);
  expect_geometry(**opened, "attn.sixteen.weight", Format::nvfp4, 4, 16, 128);
  expect_geometry(**opened, "attn.mx.weight", Format::mxfp4, 4, 32, 128);
  expect_geometry(**opened, "attn.mx8.weight", Format::mxfp8, 8, 32, 128);
  EXPECT_EQ((*opened)->tensors().size(), 8u);
}

TEST(MlxPack, ShapesThatContradictTheConfigAreFollowedAloud) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  Folder folder;
  folder.config = R"({"quantization":{"group_size":64,"bits":4,"own":{"group_size":64,"bits":6}}})";
  folder.add_module("declared", 8, 16, 2);
  folder.add_module("own", 8, 24, 2);
  EXPECT_TRUE(folder.open().ok());
  EXPECT_EQ(log.str(), "");
  folder.add_module("six", 8, 24, 2);
  folder.add_module("three", 8, 12, 2);
  EXPECT_TRUE(folder.open().ok());
  spdlog::set_default_logger(before);
  EXPECT_THAT(log.str(), HasSubstr("config.json gives bits 4, group_size 64 for all matrices; the shapes of 2 say"));
  EXPECT_THAT(log.str(), HasSubstr("six.weight has 6 bits at group 64, …"));
}

TEST(MlxPack, AmbiguousShapesNeedTheConfig) {
  // 32 words and 4 groups: 8 bits at 32, 4 at 64 or 2 at 128.
  Folder folder;
  folder.add_module("m", 8, 32, 4);
  EXPECT_THAT(folder.error(), HasSubstr("allow 4 bits at group 64, 8 bits at group 32, 2 bits at group 128"));
  for (const auto& [bits, group] : {std::pair{8, 32}, {4, 64}, {2, 128}}) {
    folder.config = fmt::format(R"({{"quantization_config":{{"bits":{},"group_size":{}}}}})", bits, group);
    const auto opened = folder.open();
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    expect_geometry(**opened, "m.weight", Format::affine, bits, group, 4 * group);
  }
}

TEST(MlxPack, ContradictionsAreErrors) {
  const auto error = [](const std::string& config, const std::function<void(Folder&)>& fill) {
    Folder folder;
    folder.config = config;
    fill(folder);
    return folder.error();
  };
  const auto module = [](Folder& f) { f.add_module("m", 8, 16, 2); };
  EXPECT_THAT(error(R"({"quantization":{"bits":4,"group_size":64,"m":{"bits":8,"group_size":64}}})", module),
              HasSubstr("tensor \"m.weight\": config.json says bits 8, group_size 64"));
  EXPECT_THAT(error(R"({"quantization":{"bits":4,"group_size":64,"m":false}})", module),
              HasSubstr("config.json says that it is not quantised, but it has scales"));
  EXPECT_THAT(error("{}", [](Folder& f) { f.add_module("m", 8, 7, 2); }), HasSubstr("fit no bits and group size"));
  EXPECT_THAT(error("{}",
                    [](Folder& f) {
                      f.writer.add("m.weight", Format::u32, {8, 16}, Bytes(512));
                      f.writer.add("m.scales", Format::bf16, {8, 2}, Bytes(32));
                    }),
              HasSubstr("expected biases bf16 [8, 2] like its scales, found none"));
  EXPECT_THAT(error("{}",
                    [](Folder& f) {
                      f.writer.add("m.weight", Format::u32, {8, 16}, Bytes(512));
                      f.writer.add("m.scales", Format::bf16, {4, 2}, Bytes(16));
                      f.writer.add("m.biases", Format::bf16, {4, 2}, Bytes(16));
                    }),
              HasSubstr("its shape [8, 16] does not go with its scales [4, 2]"));
  EXPECT_THAT(error("{}",
                    [](Folder& f) {
                      f.writer.add("m.weight", Format::bf16, {8, 16}, Bytes(256));
                      f.writer.add("m.scales", Format::bf16, {8, 2}, Bytes(32));
                    }),
              HasSubstr("it has scales; expected u32 words, found bf16"));
  EXPECT_THAT(error(R"({"quantization_config":{"quant_method":"gptq","bits":4}})", [](Folder&) {}),
              HasSubstr("quantisation by \"gptq\" is not supported"));
}

TEST(SafetensorsFolder, ShardsWithAnIndex) {
  TempFolder folder;
  save_text(folder / "config.json", "{}");
  for (const char* name : {"a", "b"}) {
    SafetensorsWriter writer;
    writer.add(name, Format::f32, {4}, Bytes(16));
    writer.save_as(folder / (std::string("model-") + name + ".safetensors"));
  }
  const auto error = [&](const std::string& weight_map) {
    save_text(folder / "model.safetensors.index.json", R"({"weight_map":)" + weight_map + "}");
    const auto opened = Checkpoint::open(folder.path());
    return opened.ok() ? "" : opened.error().message;
  };
  EXPECT_EQ(error(R"({"a":"model-a.safetensors","b":"model-b.safetensors"})"), "");
  EXPECT_EQ(error(R"({"a":"model-a.safetensors"})"), "");
  EXPECT_THAT(error(R"({"a":"model-a.safetensors","c":"model-b.safetensors"})"),
              HasSubstr("tensor \"b\" is not in the index for this file"));
  EXPECT_THAT(error(R"({"a":"model-a.safetensors","c":"model-a.safetensors"})"),
              HasSubstr("tensor \"c\" is missing, but the index says that it is here"));
  EXPECT_THAT(error(R"({"a":"model-x.safetensors"})"), HasSubstr("model-x.safetensors: cannot open the file"));
  EXPECT_THAT(error(R"({"a":"../model-a.safetensors"})"),
              HasSubstr("expected the name of a *.safetensors file beside it"));
  EXPECT_THAT(error(R"({"a":"/etc/passwd"})"), HasSubstr("expected the name of a *.safetensors file beside it"));
  EXPECT_THAT(error("[]"), HasSubstr("expected the object \"weight_map\""));
}

TEST(SafetensorsFolder, WithoutAnIndexEveryModelFileCounts) {
  TempFolder folder;
  save_text(folder / "config.json", "{}");
  for (const char* name : {"model-1.safetensors", "model-2.safetensors", "adapters.safetensors"}) {
    SafetensorsWriter writer;
    writer.add(name, Format::f32, {4}, Bytes(16));
    writer.save_as(folder / name);
  }
  auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->tensors().size(), 2u);
  std::filesystem::copy_file(folder / "model-1.safetensors", folder / "model-3.safetensors");
  opened = Checkpoint::open(folder.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message, HasSubstr("is in another file too"));
}

TEST(SafetensorsFolder, ConfigErrors) {
  Folder folder;
  folder.config = "{";
  EXPECT_THAT(folder.error(), HasSubstr("config.json: it is not JSON"));
  folder.config = "[1]";
  EXPECT_THAT(folder.error(), HasSubstr("config.json: expected a JSON object"));
  std::filesystem::remove(folder.temp / "config.json");
  const auto opened = Checkpoint::open(folder.temp.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message, HasSubstr("config.json: cannot open the file"));
}

TEST(SafetensorsFolder, RandomDamageOfTheHeaderNeverCrashes) {
  Folder folder;
  folder.add_module("m", 8, 16, 2);
  const Bytes whole = folder.writer.bytes();
  EXPECT_TRUE(rc::check([&](uint64_t seed) {
    Random random(seed);
    Bytes bytes = whole;
    for (int n = 1 + random.below(4); n > 0; --n)
      bytes[static_cast<size_t>(random.below(200))] = static_cast<std::byte>(random.below(256));
    const auto parsed = parse_safetensors(bytes);
    if (!parsed.ok()) return;
    for (const TensorView& tensor : *parsed) {
      RC_ASSERT(byte_count(tensor.format, tensor.shape).value() == tensor.data.size());
    }
  }));
}

}  // namespace
}  // namespace drafthorse::test
