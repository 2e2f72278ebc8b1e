// The GGUF reader: round trips through the test writer, split files, and malformed files.

#include "weights/gguf.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "support/random_weights.h"
#include "support/temp_folder.h"
#include "support/write_gguf.h"

namespace drafthorse::test {
namespace {

using testing::HasSubstr;

constexpr Format kFormats[] = {Format::f32,  Format::f16,    Format::bf16,   Format::q4_0,        Format::q4_1,
                               Format::q5_0, Format::q5_1,   Format::q8_0,   Format::q2_k,        Format::q3_k,
                               Format::q4_k, Format::q5_k,   Format::q6_k,   Format::i8,          Format::i32,
                               Format::i64,  Format::iq4_nl, Format::iq4_xs, Format::mxfp4_blocks};

// The error text of parsing, or "" when the bytes are accepted.
std::string parse_error(std::span<const std::byte> bytes) {
  const auto result = parse_gguf(bytes);
  return result.ok() ? "" : result.error().message;
}

// A file with one key and two tensors, for the tests that break it.
GgufWriter small_file() {
  GgufWriter writer;
  writer.set("general.architecture", "llama");
  writer.add("a", Format::f32, {2, 4}, Bytes(32));
  writer.add("b", Format::q4_0, {3, 32}, Bytes(54));
  return writer;
}

template <class T>
void poke(Bytes& bytes, size_t at, T value) {
  ASSERT_LE(at + sizeof value, bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Where a text first occurs; the fields of a tensor header follow its name.
size_t position_after(const Bytes& bytes, std::string_view text) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all.find(text) + text.size();
}

TEST(Gguf, EveryValueTypeRoundTrips) {
  GgufWriter writer;
  writer.set("u32", uint32_t{4000000000u});
  writer.set("i32", int32_t{-5});
  writer.set("u64", uint64_t{1} << 62);
  writer.set("i64", std::numeric_limits<int64_t>::min());
  writer.set("f32", 0.5f);
  writer.set("f64", 0.1);
  writer.set("bool", true);
  writer.set("text", std::string("a\0b", 3));
  writer.set("texts", std::vector<std::string>{"x", "", "yz"});
  writer.set("ints", std::vector<int32_t>{1, -2});
  writer.set("floats", std::vector<float>{1.5f});
  writer.set("bools", std::vector<bool>{true, false});
  const Bytes bytes = writer.bytes();
  const auto parsed = parse_gguf(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const GgufMetadata& m = parsed->metadata;
  EXPECT_EQ(m.size(), 12u);
  EXPECT_EQ(m.at("u32"), GgufValue(int64_t{4000000000}));
  EXPECT_EQ(m.at("i32"), GgufValue(int64_t{-5}));
  EXPECT_EQ(m.at("u64"), GgufValue(int64_t{1} << 62));
  EXPECT_EQ(m.at("i64"), GgufValue(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(m.at("f32"), GgufValue(0.5));
  EXPECT_EQ(m.at("f64"), GgufValue(0.1));
  EXPECT_EQ(m.at("bool"), GgufValue(true));
  EXPECT_EQ(m.at("text"), GgufValue(std::string("a\0b", 3)));
  EXPECT_EQ(m.at("texts"), GgufValue(std::vector<std::string>{"x", "", "yz"}));
  EXPECT_EQ(m.at("ints"), GgufValue(std::vector<int64_t>{1, -2}));
  EXPECT_EQ(m.at("floats"), GgufValue(std::vector<double>{1.5}));
  EXPECT_EQ(m.at("bools"), GgufValue(std::vector<bool>{true, false}));
}

TEST(Gguf, TensorsRoundTrip) {
  EXPECT_TRUE(rc::check([](uint64_t seed, bool version2) {
    Random random(seed);
    GgufWriter writer;
    writer.version = version2 ? 2 : 3;
    writer.alignment = 8u << random.below(6);
    if (writer.alignment != 32) writer.set("general.alignment", writer.alignment);
    std::vector<Bytes> contents;
    std::vector<std::vector<int64_t>> shapes;
    std::vector<Format> formats;
    const int count = random.below(6);
    for (int i = 0; i < count; ++i) {
      const Format format = kFormats[random.below(static_cast<int>(std::size(kFormats)))];
      std::vector<int64_t> shape;
      for (int d = random.below(4); d > 0; --d) shape.push_back(1 + random.below(3));
      shape.push_back(block_layout(format).elements * (1 + random.below(3)));
      contents.push_back(random_bytes(random, byte_count(format, shape).value()));
      shapes.push_back(shape);
      formats.push_back(format);
      writer.add("t" + std::to_string(i), format, shape, contents.back());
    }
    const Bytes bytes = writer.bytes();
    const auto parsed = parse_gguf(bytes);
    RC_ASSERT(parsed.ok());
    RC_ASSERT(parsed->tensors.size() == contents.size());
    for (size_t i = 0; i < contents.size(); ++i) {
      const TensorView& tensor = parsed->tensors[i];
      RC_ASSERT(tensor.name == "t" + std::to_string(i));
      RC_ASSERT(tensor.shape == shapes[i]);
      RC_ASSERT(tensor.format == formats[i]);
      RC_ASSERT(std::equal(tensor.data.begin(), tensor.data.end(), contents[i].begin(), contents[i].end()));
    }
  }));
}

TEST(Gguf, EveryTruncationIsRefused) {
  const Bytes whole = small_file().bytes();
  ASSERT_EQ(parse_error(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(parse_error(std::span(whole).first(size)), "") << size;
  }
}

TEST(Gguf, HeaderErrors) {
  Bytes bytes = small_file().bytes();
  poke(bytes, 0, uint32_t{0x12345678});
  EXPECT_THAT(parse_error(bytes), HasSubstr("magic bytes are missing"));
  bytes = small_file().bytes();
  poke(bytes, 4, uint32_t{1});
  EXPECT_THAT(parse_error(bytes), HasSubstr("GGUF version 1 is not supported; expected 2 or 3"));
  poke(bytes, 4, uint32_t{0x03000000});
  EXPECT_THAT(parse_error(bytes), HasSubstr("big-endian"));
}

TEST(Gguf, HugeCountsAreRefusedWithoutMemory) {
  for (const uint64_t count : {uint64_t{1} << 32, uint64_t{1} << 60, ~uint64_t{0}}) {
    for (const size_t field : {8, 16}) {  // tensors, metadata entries
      Bytes bytes = small_file().bytes();
      poke(bytes, field, count);
      EXPECT_THAT(parse_error(bytes), HasSubstr("cannot fit a file of this size"));
    }
    GgufWriter writer;
    writer.set("list", std::vector<int32_t>{1, 2, 3});
    Bytes bytes = writer.bytes();
    poke(bytes, position_after(bytes, "list") + 8, count);  // after the types of the value and of its items
    EXPECT_THAT(parse_error(bytes), HasSubstr("metadata key \"list\": an array of"));
    bytes = small_file().bytes();
    poke(bytes, 24, count);  // length of the first key
    EXPECT_THAT(parse_error(bytes), HasSubstr("ends inside metadata entry 1 of 1"));
  }
}

TEST(Gguf, ValueErrors) {
  GgufWriter writer;
  writer.set("key", uint32_t{1});
  Bytes bytes = writer.bytes();
  const size_t type = position_after(bytes, "key");
  poke(bytes, type, uint32_t{13});
  EXPECT_THAT(parse_error(bytes), HasSubstr("metadata key \"key\": unknown value type 13"));

  GgufWriter twice;
  twice.set("key", uint32_t{1});
  twice.set("key", uint32_t{2});
  EXPECT_THAT(parse_error(twice.bytes()), HasSubstr("metadata key \"key\" appears twice"));

  GgufWriter large;
  large.set("key", uint64_t{1} << 63);
  EXPECT_THAT(parse_error(large.bytes()), HasSubstr("does not fit 64 signed bits"));

  GgufWriter nested;
  nested.set("list", std::vector<int32_t>{1});
  bytes = nested.bytes();
  poke(bytes, position_after(bytes, "list") + 4, uint32_t{9});
  EXPECT_THAT(parse_error(bytes), HasSubstr("metadata key \"list\": arrays of arrays are not supported"));

  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 30}) {
    GgufWriter odd;
    odd.set("general.alignment", alignment);
    EXPECT_THAT(parse_error(odd.bytes()), HasSubstr("\"general.alignment\": expected a power of two"));
  }
}

TEST(Gguf, TensorHeaderErrors) {
  const Bytes whole = small_file().bytes();
  // The fields of tensor "b": name length 8, name 1, dimensions 4, two sizes of 8, type 4, offset 8.
  const size_t dimensions = position_after(whole, std::string_view("\1\0\0\0\0\0\0\0b", 9));
  const auto with = [&](size_t at, auto value) {
    Bytes bytes = whole;
    poke(bytes, at, value);
    return parse_error(bytes);
  };
  EXPECT_THAT(with(dimensions, uint32_t{0}), HasSubstr("tensor \"b\": expected 1 to 4 dimensions, found 0"));
  EXPECT_THAT(with(dimensions, uint32_t{5}), HasSubstr("found 5"));
  EXPECT_THAT(with(dimensions + 4, uint64_t{0}), HasSubstr("tensor \"b\": dimension 0 has the impossible size 0"));
  EXPECT_THAT(with(dimensions + 4, ~uint64_t{0}), HasSubstr("impossible size"));
  EXPECT_THAT(with(dimensions + 4, uint64_t{33}),
              HasSubstr("blocks of 32 elements, but the contiguous axis of shape [3, 33]"));
  EXPECT_THAT(with(dimensions + 4, uint64_t{1} << 62), HasSubstr("no valid number of elements"));
  EXPECT_THAT(with(dimensions + 12, uint64_t{4000}),
              HasSubstr("expected 72000 bytes at offset 32, but the data section has"));
  EXPECT_THAT(with(dimensions + 20, uint32_t{16}),
              HasSubstr("tensor \"b\" has type 16 (IQ2_XXS), which has no reader"));
  EXPECT_THAT(with(dimensions + 20, uint32_t{999}), HasSubstr("type 999 (unknown)"));
  EXPECT_THAT(with(dimensions + 24, uint64_t{8}), HasSubstr("offset 8 is no multiple of the alignment 32"));
  EXPECT_THAT(with(dimensions + 24, uint64_t{0}), HasSubstr("tensors \"a\" and \"b\" overlap"));
  EXPECT_THAT(with(dimensions + 24, ~uint64_t{31}), HasSubstr("expected 54 bytes at offset"));
  EXPECT_THAT(with(dimensions - 1, 'a'), HasSubstr("tensor \"a\" appears twice"));
}

TEST(Gguf, RandomDamageNeverCrashes) {
  GgufWriter writer = small_file();
  writer.set("texts", std::vector<std::string>{"one", "two"});
  const Bytes whole = writer.bytes();
  EXPECT_TRUE(rc::check([&](uint64_t seed) {
    Random random(seed);
    Bytes bytes = whole;
    for (int n = 1 + random.below(4); n > 0; --n) {
      bytes[static_cast<size_t>(random.below(static_cast<int>(bytes.size())))] =
          static_cast<std::byte>(random.below(256));
    }
    const auto parsed = parse_gguf(bytes);
    if (!parsed.ok()) return;
    for (const TensorView& tensor : parsed->tensors) {  // accepted views lie inside the bytes
      RC_ASSERT(tensor.data.data() >= bytes.data());
      RC_ASSERT(tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
      RC_ASSERT(byte_count(tensor.format, tensor.shape).value() == tensor.data.size());
    }
  }));
}

// Two parts of a split model. change: called with part index and writer before it is saved.
std::filesystem::path write_split(const TempFolder& folder, const std::function<void(int, GgufWriter&)>& change = {}) {
  for (int part = 0; part < 2; ++part) {
    GgufWriter writer;
    if (part == 0) writer.set("general.architecture", "llama");
    writer.set("split.no", static_cast<uint32_t>(part));
    writer.set("split.count", uint32_t{2});
    writer.set("split.tensors.count", int32_t{2});
    writer.add(part == 0 ? "a" : "b", Format::f32, {4}, Bytes(16));
    if (change) change(part, writer);
    writer.save_as(folder / (part == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf"));
  }
  return folder / "m-00001-of-00002.gguf";
}

std::string open_error(const std::filesystem::path& path) {
  const auto opened = Checkpoint::open(path);
  return opened.ok() ? "" : opened.error().message;
}

TEST(GgufCheckpoint, SplitModelOpensByAnyPartAndByFolder) {
  TempFolder folder;
  const auto first = write_split(folder);
  for (const auto& path : {first, folder / "m-00002-of-00002.gguf", folder.path()}) {
    const auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ((*opened)->tensors().size(), 2u);
    EXPECT_NE((*opened)->find("a"), nullptr);
    EXPECT_NE((*opened)->find("b"), nullptr);
    EXPECT_EQ((*opened)->find("c"), nullptr);
    EXPECT_NE((*opened)->metadata().find("general.architecture"), (*opened)->metadata().end());
    EXPECT_THAT((*opened)->identity(), HasSubstr("m-00002-of-00002.gguf"));
  }
}

TEST(GgufCheckpoint, SplitErrors) {
  TempFolder folder;
  auto path = write_split(folder);
  std::filesystem::remove(folder / "m-00002-of-00002.gguf");
  EXPECT_THAT(open_error(path), HasSubstr("part 2 of 2 of a split model"));
  EXPECT_THAT(open_error(path), HasSubstr("m-00002-of-00002.gguf"));
  path = write_split(folder, [](int part, GgufWriter& w) {
    if (part == 1) w.add("a", Format::f32, {4}, Bytes(16));
  });
  EXPECT_THAT(open_error(path), HasSubstr("tensor \"a\" is in another part too"));
  path = write_split(folder, [](int part, GgufWriter& w) {
    if (part == 1) w.add("c", Format::f32, {4}, Bytes(16));
  });
  EXPECT_THAT(open_error(path), HasSubstr("expected 2 tensors in all parts, found 3"));
  write_split(folder);
  std::filesystem::copy_file(folder / "m-00001-of-00002.gguf", folder / "m-00002-of-00002.gguf",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(open_error(path), HasSubstr("expected split.no 1 of 2, found 0 of 2"));
  std::filesystem::rename(path, folder / "other.gguf");
  EXPECT_THAT(open_error(folder / "other.gguf"), HasSubstr("-00001-of-00002.gguf"));
}

TEST(Checkpoint, PathErrors) {
  TempFolder folder;
  EXPECT_THAT(open_error(folder / "absent.gguf"), HasSubstr("absent.gguf: no such file or folder"));
  EXPECT_THAT(open_error(folder.path()), HasSubstr("holds no *.safetensors and no *.gguf file"));
  small_file().save_as(folder / "one.gguf");
  small_file().save_as(folder / "mmproj-one.gguf");
  EXPECT_EQ(open_error(folder.path()), "");
  small_file().save_as(folder / "two.gguf");
  EXPECT_THAT(open_error(folder.path()), HasSubstr("name one of one.gguf, two.gguf"));
  save_text(folder / "empty.gguf", "");
  EXPECT_THAT(open_error(folder / "empty.gguf"), HasSubstr("empty.gguf: expected a GGUF file"));
}

TEST(Checkpoint, ReleasedPagesReadTheSameAgain) {
  TempFolder folder;
  GgufWriter writer;
  Random random(7);
  const Bytes data = random_bytes(random, 1 << 20);
  writer.add("a", Format::i8, {1 << 20}, data);
  writer.save_as(folder / "m.gguf");
  const auto opened = Checkpoint::open(folder / "m.gguf");
  ASSERT_TRUE(opened.ok());
  const TensorView& tensor = (*opened)->tensors().front();
  (*opened)->release(tensor);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), tensor.data.begin(), tensor.data.end()));
}

TEST(Dequantise, ArgumentErrors) {
  Random random(1);
  const OwnedTensor owned = random_blocks(Format::q4_0, {3, 64}, random, 1);
  const TensorView tensor = owned.view();
  std::vector<float> out(3 * 64);
  EXPECT_TRUE(dequantise(tensor, 0, 3, out).ok());
  EXPECT_TRUE(dequantise(tensor, 3, 0, out).ok());
  EXPECT_FALSE(dequantise(tensor, 1, 3, out).ok());
  EXPECT_FALSE(dequantise(tensor, -1, 1, out).ok());
  EXPECT_FALSE(dequantise(tensor, 0, std::numeric_limits<int64_t>::max(), out).ok());
  EXPECT_FALSE(dequantise(tensor, 0, 3, std::span(out).first(100)).ok());
  TensorView integers = tensor;
  integers.format = Format::i8;
  integers.shape = {3, 8};
  EXPECT_THAT(dequantise(integers, 0, 1, out).error().message, HasSubstr("i8 elements have no floating-point meaning"));
  TensorView cut = tensor;
  cut.data = cut.data.first(cut.data.size() - 1);
  EXPECT_THAT(dequantise(cut, 0, 1, out).error().message, HasSubstr("expected 108 bytes, found 107"));
}

}  // namespace
}  // namespace drafthorse::test
