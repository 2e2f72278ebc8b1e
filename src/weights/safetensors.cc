#include "weights/safetensors.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "weights/float_formats.h"

namespace drafthorse {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the format's own library

Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text), {}}; }

std::optional<Format> dtype_format(std::string_view dtype) {
  if (dtype == "F32") return Format::f32;
  if (dtype == "F16") return Format::f16;
  if (dtype == "BF16") return Format::bf16;
  if (dtype == "I32") return Format::i32;
  if (dtype == "U32") return Format::u32;
  if (dtype == "U8") return Format::u8;
  if (dtype == "I8") return Format::i8;
  if (dtype == "I64") return Format::i64;
  if (dtype == "F8_E4M3") return Format::f8_e4m3;
  return std::nullopt;
}

// An array of non-negative integers, or nothing.
std::optional<std::vector<int64_t>> sizes(const boost::json::value* value) {
  if (!value || !value->is_array()) return std::nullopt;
  std::vector<int64_t> result;
  for (const boost::json::value& item : value->get_array()) {
    boost::system::error_code error;
    const auto size = item.to_number<int64_t>(error);
    if (error || size < 0 || item.is_double()) return std::nullopt;
    result.push_back(size);
  }
  return result;
}

struct Placed {
  TensorView view;
  int64_t begin = 0, end = 0;  // in the data section
};

// One header entry. data: the bytes after the header.
Result<Placed> read_entry(std::string_view name, const boost::json::value& entry, std::span<const std::byte> data) {
  const auto fail = [&](ErrorKind kind, const std::string& text) {
    return Error{kind, fmt::format("tensor \"{}\": {}", name, text), {}};
  };
  const boost::json::object* object = entry.if_object();
  if (!object) return fail(ErrorKind::corrupt, "expected an object in the header");
  const boost::json::value* dtype = object->if_contains("dtype");
  const auto shape = sizes(object->if_contains("shape"));
  const auto offsets = sizes(object->if_contains("data_offsets"));
  if (!dtype || !dtype->is_string()) return fail(ErrorKind::corrupt, "expected a dtype");
  if (!shape) return fail(ErrorKind::corrupt, "expected a shape of non-negative integers");
  if (!offsets || offsets->size() != 2) return fail(ErrorKind::corrupt, "expected two data_offsets");
  const auto format = dtype_format(dtype->get_string());
  if (!format) {
    return fail(ErrorKind::unsupported,
                fmt::format("dtype {} has no reader; supported are F32, F16, BF16, F8_E4M3, I32, I64, I8, U32 and U8",
                            std::string_view(dtype->get_string())));
  }
  const Result<size_t> size = byte_count(*format, *shape);
  if (!size) return fail(size.error().kind, size.error().message);
  const int64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end || static_cast<uint64_t>(end) > data.size()) {
    return fail(ErrorKind::corrupt,
                fmt::format("its bytes {} to {} are outside the {} bytes of data; is the file complete?", begin, end,
                            data.size()));
  }
  if (static_cast<size_t>(end - begin) != *size) {
    return fail(ErrorKind::corrupt, fmt::format("expected {} bytes for {} {}, found {}", *size,
                                                drafthorse::name(*format), shape_text(*shape), end - begin));
  }
  Placed placed{{}, begin, end};
  placed.view.name = name;
  placed.view.format = *format;
  placed.view.shape = *shape;
  placed.view.data = data.subspan(static_cast<size_t>(begin), *size);
  return placed;
}

Status check_overlaps(const std::vector<Placed>& tensors) {
  std::vector<const Placed*> by_offset;
  for (const Placed& tensor : tensors) {
    if (tensor.end > tensor.begin) by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i - 1]->end <= by_offset[i]->begin) continue;
    return corrupt(
        fmt::format("tensors \"{}\" and \"{}\" overlap", by_offset[i - 1]->view.name, by_offset[i]->view.name));
  }
  return {};
}

}  // namespace

Result<std::vector<TensorView>> parse_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(uint64_t)) return corrupt("expected a safetensors file, but it has fewer than 8 bytes");
  const auto header_size = load<uint64_t>(bytes.data());
  const std::span<const std::byte> rest = bytes.subspan(sizeof header_size);
  if (header_size > rest.size() || header_size > kMaxHeader) {
    return corrupt(
        fmt::format("expected a header of {} bytes, but {} bytes follow (at most {} are allowed); is it a "
                    "complete safetensors file?",
                    header_size, rest.size(), kMaxHeader));
  }
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), static_cast<size_t>(header_size));
  boost::system::error_code error;
  const boost::json::value header = boost::json::parse(text, error);
  if (error || !header.is_object()) {
    return corrupt(fmt::format("expected a JSON object as header{}", error ? ": " + error.message() : ""));
  }
  const std::span<const std::byte> data = rest.subspan(static_cast<size_t>(header_size));
  std::vector<Placed> placed;
  for (const auto& item : header.get_object()) {
    if (item.key() == "__metadata__") continue;
    Result<Placed> entry = read_entry(item.key(), item.value(), data);
    if (!entry) return entry.error();
    placed.push_back(std::move(*entry));
  }
  if (Status status = check_overlaps(placed); !status) return status.error();
  std::vector<TensorView> tensors;
  for (Placed& tensor : placed) tensors.push_back(std::move(tensor.view));
  return tensors;
}

}  // namespace drafthorse
