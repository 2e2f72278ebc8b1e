#pragma once
// A writer of GGUF version 3 files, sound ones: tests of malformed files change the bytes afterwards.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/byte_writer.h"
#include "weights/tensor.h"

namespace drafthorse::test {

// GGML's number of a format. Throws for formats that GGUF does not have.
inline uint32_t ggml_type(Format format) {
  static const std::map<Format, uint32_t> types = {
      {Format::f32, 0},   {Format::f16, 1},   {Format::q4_0, 2},    {Format::q4_1, 3},         {Format::q5_0, 6},
      {Format::q5_1, 7},  {Format::q8_0, 8},  {Format::q2_k, 10},   {Format::q3_k, 11},        {Format::q4_k, 12},
      {Format::q5_k, 13}, {Format::q6_k, 14}, {Format::iq4_nl, 20}, {Format::iq4_xs, 23},      {Format::i8, 24},
      {Format::i32, 26},  {Format::i64, 27},  {Format::bf16, 30},   {Format::mxfp4_blocks, 39}};
  return types.at(format);
}

class GgufWriter {
 public:
  using Value = std::variant<uint32_t, int32_t, uint64_t, int64_t, float, double, bool, std::string,
                             std::vector<std::string>, std::vector<int32_t>, std::vector<float>, std::vector<bool>>;

  uint32_t version = 3;
  uint32_t alignment = 32;  // write the key general.alignment too when it is not 32

  void set(std::string key, Value value) { metadata_.emplace_back(std::move(key), std::move(value)); }
  template <size_t N>
  void set(std::string key, const char (&text)[N]) {
    set(std::move(key), Value(std::string(text)));
  }
  // shape: outermost first, as in TensorView.
  void add(std::string name, Format format, std::vector<int64_t> shape, Bytes data) {
    tensors_.push_back({std::move(name), ggml_type(format), std::move(shape), std::move(data)});
  }
  void add_raw(std::string name, uint32_t type, std::vector<int64_t> shape, Bytes data) {
    tensors_.push_back({std::move(name), type, std::move(shape), std::move(data)});
  }

  Bytes bytes() const {
    Bytes out;
    append_text(out, "GGUF");
    append(out, version);
    append<uint64_t>(out, tensors_.size());
    append<uint64_t>(out, metadata_.size());
    for (const auto& [key, value] : metadata_) {
      append_string(out, key);
      std::visit([&](const auto& v) { append_value(out, v); }, value);
    }
    Bytes data;
    for (const Tensor& tensor : tensors_) {
      pad(data);
      append_string(out, tensor.name);
      append<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
      for (size_t d = tensor.shape.size(); d-- > 0;) append<uint64_t>(out, static_cast<uint64_t>(tensor.shape[d]));
      append(out, tensor.type);
      append<uint64_t>(out, data.size());
      append(data, tensor.data);
    }
    pad(out);
    append(out, data);
    return out;
  }
  void save_as(const std::filesystem::path& path) const { save(path, bytes()); }

 private:
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<int64_t> shape;
    Bytes data;
  };

  void pad(Bytes& out) const { out.resize((out.size() + alignment - 1) / alignment * alignment); }

  static void append_string(Bytes& out, const std::string& text) {
    append<uint64_t>(out, text.size());
    append_text(out, text);
  }
  template <class T>
  static constexpr uint32_t type_id() {
    if constexpr (std::is_same_v<T, uint32_t>) return 4;
    if constexpr (std::is_same_v<T, int32_t>) return 5;
    if constexpr (std::is_same_v<T, float>) return 6;
    if constexpr (std::is_same_v<T, bool>) return 7;
    if constexpr (std::is_same_v<T, std::string>) return 8;
    if constexpr (std::is_same_v<T, uint64_t>) return 10;
    if constexpr (std::is_same_v<T, int64_t>) return 11;
    if constexpr (std::is_same_v<T, double>) return 12;
  }
  template <class T>
  static void append_item(Bytes& out, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      append_string(out, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      append<uint8_t>(out, value);
    } else {
      append(out, value);
    }
  }
  template <class T>
  static void append_value(Bytes& out, const T& value) {
    append<uint32_t>(out, type_id<T>());
    append_item(out, value);
  }
  template <class T>
  static void append_value(Bytes& out, const std::vector<T>& values) {
    append<uint32_t>(out, 9);
    append<uint32_t>(out, type_id<T>());
    append<uint64_t>(out, values.size());
    for (const T& value : values) append_item<T>(out, value);
  }

  std::vector<std::pair<std::string, Value>> metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace drafthorse::test
