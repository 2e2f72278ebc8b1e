#include "weights/gguf.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "weights/float_formats.h"

namespace drafthorse {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32;

Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text), {}}; }

// A cursor over untrusted bytes. After the first read past the end it stays failed and returns zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T read() {
    if (!take(sizeof(T))) return T{};
    return load<T>(bytes_.data() + position_ - sizeof(T));
  }

  std::string read_string() {
    const auto size = read<uint64_t>();
    if (!take(size)) return {};
    return {reinterpret_cast<const char*>(bytes_.data()) + position_ - size, static_cast<size_t>(size)};
  }

  bool failed() const { return failed_; }
  size_t position() const { return position_; }
  uint64_t remaining() const { return failed_ ? 0 : bytes_.size() - position_; }

 private:
  bool take(uint64_t size) {
    if (failed_ || size > bytes_.size() - position_) {
      failed_ = true;
      return false;
    }
    position_ += static_cast<size_t>(size);
    return true;
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool failed_ = false;
};

enum class ValueType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// Smallest number of bytes that a value of the type occupies; bounds an array's length before it is allocated.
uint64_t minimum_size(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean: return 1;
    case ValueType::u16:
    case ValueType::i16: return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32: return 4;
    default: return 8;
  }
}

// A value read from the file, or nothing for a u64 beyond int64 (`too_large`).
std::optional<int64_t> read_integer(Reader& reader, ValueType type) {
  switch (type) {
    case ValueType::u8: return reader.read<uint8_t>();
    case ValueType::i8: return reader.read<int8_t>();
    case ValueType::u16: return reader.read<uint16_t>();
    case ValueType::i16: return reader.read<int16_t>();
    case ValueType::u32: return reader.read<uint32_t>();
    case ValueType::i32: return reader.read<int32_t>();
    case ValueType::i64: return reader.read<int64_t>();
    default: break;
  }
  const auto value = reader.read<uint64_t>();
  if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(value);
}

double read_float(Reader& reader, ValueType type) {
  return type == ValueType::f32 ? static_cast<double>(reader.read<float>()) : reader.read<double>();
}

Error too_large(const std::string& key) {
  return {ErrorKind::unsupported, fmt::format("metadata key \"{}\": the integer does not fit 64 signed bits", key), {}};
}

Result<GgufValue> read_array(Reader& reader, const std::string& key) {
  const auto type = static_cast<ValueType>(reader.read<uint32_t>());
  const auto count = reader.read<uint64_t>();
  if (reader.failed()) return corrupt(fmt::format("metadata key \"{}\": the file ends inside its array header", key));
  if (type == ValueType::array) {
    return Error{
        ErrorKind::unsupported, fmt::format("metadata key \"{}\": arrays of arrays are not supported", key), {}};
  }
  if (type > ValueType::f64) {
    return corrupt(fmt::format("metadata key \"{}\": unknown array element type {}", key, static_cast<uint32_t>(type)));
  }
  if (count > reader.remaining() / minimum_size(type)) {
    return corrupt(
        fmt::format("metadata key \"{}\": an array of {} values does not fit the {} bytes that follow; is "
                    "the file complete?",
                    key, count, reader.remaining()));
  }
  const auto fill = [&](auto values, auto read_one) -> GgufValue {
    values.reserve(static_cast<size_t>(count));
    for (uint64_t i = 0; i < count && !reader.failed(); ++i) values.push_back(read_one());
    return values;
  };
  if (type == ValueType::string) return fill(std::vector<std::string>{}, [&] { return reader.read_string(); });
  if (type == ValueType::boolean) return fill(std::vector<bool>{}, [&] { return reader.read<uint8_t>() != 0; });
  if (type == ValueType::f32 || type == ValueType::f64) {
    return fill(std::vector<double>{}, [&] { return read_float(reader, type); });
  }
  bool overflow = false;
  GgufValue integers = fill(std::vector<int64_t>{}, [&] {
    const auto value = read_integer(reader, type);
    overflow |= !value;
    return value.value_or(0);
  });
  if (overflow) return too_large(key);
  return integers;
}

Result<GgufValue> read_value(Reader& reader, ValueType type, const std::string& key) {
  switch (type) {
    case ValueType::f32:
    case ValueType::f64: return GgufValue{read_float(reader, type)};
    case ValueType::boolean: return GgufValue{reader.read<uint8_t>() != 0};
    case ValueType::string: return GgufValue{reader.read_string()};
    case ValueType::array: return read_array(reader, key);
    default: break;
  }
  if (type > ValueType::f64) {
    return corrupt(fmt::format("metadata key \"{}\": unknown value type {}", key, static_cast<uint32_t>(type)));
  }
  const auto value = read_integer(reader, type);
  if (!value) return too_large(key);
  return GgufValue{*value};
}

Status read_metadata(Reader& reader, uint64_t count, GgufMetadata& metadata) {
  for (uint64_t i = 0; i < count; ++i) {
    std::string key = reader.read_string();
    const auto type = static_cast<ValueType>(reader.read<uint32_t>());
    if (reader.failed()) return corrupt(fmt::format("the file ends inside metadata entry {} of {}", i + 1, count));
    Result<GgufValue> value = read_value(reader, type, key);
    if (!value) return value.error();
    if (reader.failed()) return corrupt(fmt::format("metadata key \"{}\": the file ends inside its value", key));
    if (!metadata.emplace(key, std::move(*value)).second) {
      return corrupt(fmt::format("metadata key \"{}\" appears twice", key));
    }
  }
  return {};
}

std::optional<Format> tensor_format(uint32_t type) {
  switch (type) {
    case 0: return Format::f32;
    case 1: return Format::f16;
    case 2: return Format::q4_0;
    case 3: return Format::q4_1;
    case 6: return Format::q5_0;
    case 7: return Format::q5_1;
    case 8: return Format::q8_0;
    case 10: return Format::q2_k;
    case 11: return Format::q3_k;
    case 12: return Format::q4_k;
    case 13: return Format::q5_k;
    case 14: return Format::q6_k;
    case 20: return Format::iq4_nl;
    case 23: return Format::iq4_xs;
    case 24: return Format::i8;
    case 26: return Format::i32;
    case 27: return Format::i64;
    case 30: return Format::bf16;
    case 39: return Format::mxfp4_blocks;
    default: return std::nullopt;
  }
}

// The public names of types that exist but have no reader here, for the message.
std::string_view unsupported_type_name(uint32_t type) {
  constexpr std::pair<uint32_t, std::string_view> kNames[] = {
      {9, "Q8_1"},   {15, "Q8_K"}, {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"},
      {22, "IQ2_S"}, {25, "I16"},  {28, "F64"},     {29, "IQ1_M"},  {34, "TQ1_0"},   {35, "TQ2_0"}, {40, "NVFP4"}};
  for (const auto& [id, text] : kNames) {
    if (id == type) return text;
  }
  return "unknown";
}

// A tensor's header: its shape (outermost first) and where its data starts in the data section.
struct TensorHeader {
  TensorView view;
  uint64_t offset = 0;
  size_t size = 0;
};

Result<TensorHeader> read_tensor_header(Reader& reader, uint64_t index, uint64_t count) {
  TensorHeader header;
  header.view.name = reader.read_string();
  const auto dimensions = reader.read<uint32_t>();
  const auto ends_early = [&] {
    return corrupt(fmt::format("the file ends inside the header of tensor {} of {}", index + 1, count));
  };
  if (reader.failed()) return ends_early();
  const std::string& tensor = header.view.name;
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    return corrupt(
        fmt::format("tensor \"{}\": expected 1 to {} dimensions, found {}", tensor, kMaxDimensions, dimensions));
  }
  for (uint32_t d = 0; d < dimensions; ++d) {
    const auto size = reader.read<uint64_t>();
    if (size > static_cast<uint64_t>(INT64_MAX) || (size == 0 && !reader.failed())) {
      return corrupt(fmt::format("tensor \"{}\": dimension {} has the impossible size {}", tensor, d, size));
    }
    header.view.shape.insert(header.view.shape.begin(), static_cast<int64_t>(size));
  }
  const auto type = reader.read<uint32_t>();
  header.offset = reader.read<uint64_t>();
  if (reader.failed()) return ends_early();
  const auto format = tensor_format(type);
  if (!format) {
    return Error{ErrorKind::unsupported,
                 fmt::format("tensor \"{}\" has type {} ({}), which has no reader; supported are F32, F16, BF16, Q4_0, "
                             "Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS and MXFP4",
                             tensor, type, unsupported_type_name(type)),
                 {}};
  }
  header.view.format = *format;
  Result<size_t> size = byte_count(*format, header.view.shape);
  if (!size) return size.error().with_context(fmt::format("tensor \"{}\"", tensor));
  header.size = *size;
  return header;
}

// Gives every view its bytes, after checking that they lie in the data section and do not overlap.
Status place_tensors(std::span<const std::byte> data, uint64_t alignment, std::vector<TensorHeader>& headers) {
  std::vector<const TensorHeader*> by_offset;
  for (TensorHeader& header : headers) {
    if (header.offset % alignment != 0) {
      return corrupt(fmt::format("tensor \"{}\": its offset {} is no multiple of the alignment {}", header.view.name,
                                 header.offset, alignment));
    }
    if (header.offset > data.size() || header.size > data.size() - header.offset) {
      return corrupt(
          fmt::format("tensor \"{}\": expected {} bytes at offset {}, but the data section has {} bytes; is the "
                      "file complete?",
                      header.view.name, header.size, header.offset, data.size()));
    }
    header.view.data = data.subspan(static_cast<size_t>(header.offset), header.size);
    by_offset.push_back(&header);
  }
  std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorHeader &before = *by_offset[i - 1], &after = *by_offset[i];
    if (before.offset + before.size > after.offset) {
      return corrupt(fmt::format("tensors \"{}\" and \"{}\" overlap", before.view.name, after.view.name));
    }
  }
  return {};
}

Result<uint64_t> read_alignment(const GgufMetadata& metadata) {
  if (metadata.find("general.alignment") == metadata.end()) return kDefaultAlignment;
  const int64_t* value = find_value<int64_t>(metadata, "general.alignment");
  if (!value || *value < 1 || !std::has_single_bit(static_cast<uint64_t>(*value)) || *value > (1 << 20)) {
    return corrupt("metadata key \"general.alignment\": expected a power of two");
  }
  return static_cast<uint64_t>(*value);
}

// The fixed part of the header. Returns {tensors, metadata entries}.
Result<std::pair<uint64_t, uint64_t>> read_counts(Reader& reader) {
  const auto magic = reader.read<uint32_t>();
  if (reader.failed() || magic != kMagic) return corrupt("expected a GGUF file, but the magic bytes are missing");
  const auto version = reader.read<uint32_t>();
  if (version != 2 && version != 3) {
    const bool swapped = (version & 0xFFFFu) == 0;
    return Error{ErrorKind::unsupported,
                 swapped ? std::string("big-endian GGUF files are not supported; convert the file to little-endian")
                         : fmt::format("GGUF version {} is not supported; expected 2 or 3", version),
                 {}};
  }
  const auto tensors = reader.read<uint64_t>(), entries = reader.read<uint64_t>();
  if (reader.failed()) return corrupt("the file ends inside its header");
  // A metadata entry has at least 13 bytes, a tensor header at least 32.
  if (tensors > reader.remaining() / 32 || entries > reader.remaining() / 13) {
    return corrupt(fmt::format("{} tensors and {} metadata entries cannot fit a file of this size", tensors, entries));
  }
  return std::pair{tensors, entries};
}

}  // namespace

Result<GgufContents> parse_gguf(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto counts = read_counts(reader);
  if (!counts) return counts.error();
  const auto [tensor_count, entry_count] = *counts;
  GgufContents contents;
  if (Status status = read_metadata(reader, entry_count, contents.metadata); !status) return status.error();
  const Result<uint64_t> alignment = read_alignment(contents.metadata);
  if (!alignment) return alignment.error();

  std::vector<TensorHeader> headers;
  std::set<std::string_view> names;
  headers.reserve(static_cast<size_t>(tensor_count));
  for (uint64_t i = 0; i < tensor_count; ++i) {
    Result<TensorHeader> header = read_tensor_header(reader, i, tensor_count);
    if (!header) return header.error();
    headers.push_back(std::move(*header));
    if (!names.insert(headers.back().view.name).second) {
      return corrupt(fmt::format("tensor \"{}\" appears twice", headers.back().view.name));
    }
  }
  const size_t data_begin =
      std::min<size_t>((reader.position() + *alignment - 1) / *alignment * *alignment, bytes.size());
  if (Status status = place_tensors(bytes.subspan(data_begin), *alignment, headers); !status) return status.error();
  for (TensorHeader& header : headers) contents.tensors.push_back(std::move(header.view));
  return contents;
}

}  // namespace drafthorse
