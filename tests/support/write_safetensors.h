#pragma once
// A writer of safetensors files, sound ones: tests of malformed files change the bytes afterwards.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "support/byte_writer.h"
#include "weights/tensor.h"

namespace drafthorse::test {

inline std::string safetensors_dtype(Format format) {
  static const std::map<Format, std::string> names = {
      {Format::f32, "F32"}, {Format::f16, "F16"}, {Format::bf16, "BF16"},
      {Format::i32, "I32"}, {Format::u32, "U32"}, {Format::u8, "U8"},
      {Format::i8, "I8"},   {Format::i64, "I64"}, {Format::f8_e4m3, "F8_E4M3"}};
  return names.at(format);
}

class SafetensorsWriter {
 public:
  void add(const std::string& name, Format format, const std::vector<int64_t>& shape, const Bytes& data) {
    boost::json::object entry;
    entry["dtype"] = safetensors_dtype(format);
    entry["shape"] = boost::json::array(shape.begin(), shape.end());
    entry["data_offsets"] = {data_.size(), data_.size() + data.size()};
    header_[name] = std::move(entry);
    append(data_, data);
  }

  Bytes bytes() const {
    std::string header = boost::json::serialize(header_);
    header.resize((header.size() + 7) / 8 * 8, ' ');
    return join(header, data_);
  }
  // A file with any header text, sound or not.
  static Bytes join(const std::string& header, const Bytes& data) {
    Bytes out;
    append<uint64_t>(out, header.size());
    append_text(out, header);
    append(out, data);
    return out;
  }
  void save_as(const std::filesystem::path& path) const { save(path, bytes()); }

 private:
  boost::json::object header_;
  Bytes data_;
};

}  // namespace drafthorse::test
