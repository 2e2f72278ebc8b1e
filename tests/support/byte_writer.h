#pragma once
// Little-endian bytes, appended one value after another.

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

namespace drafthorse::test {

using Bytes = std::vector<std::byte>;

template <class T>
requires std::is_arithmetic_v<T>
void append(Bytes& bytes, T value) {
  const size_t size = bytes.size();
  bytes.resize(size + sizeof value);
  std::memcpy(bytes.data() + size, &value, sizeof value);
}

inline void append(Bytes& bytes, std::span<const std::byte> more) {
  const size_t size = bytes.size();
  bytes.resize(size + more.size());
  if (!more.empty()) std::memcpy(bytes.data() + size, more.data(), more.size());
}
inline void append_text(Bytes& bytes, std::string_view text) { append(bytes, std::as_bytes(std::span(text))); }

template <class T>
Bytes to_bytes(std::span<const T> values) {
  Bytes bytes;
  append(bytes, std::as_bytes(values));
  return bytes;
}

inline void save(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline void save_text(const std::filesystem::path& path, std::string_view text) {
  save(path, std::as_bytes(std::span(text)));
}

}  // namespace drafthorse::test
