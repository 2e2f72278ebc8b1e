#pragma once
// A file mapped read-only into memory: opened once, shared by everything that reads it.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "core/result.h"

namespace drafthorse {

class MappedFile {
 public:
  // Maps the whole file. An empty file gives an empty span.
  // Errors: not_found (no such file), io (permission, not a regular file, the system's reason).
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  int64_t modified_ns() const { return modified_ns_; }  // modification time, nanoseconds since the epoch

  // Tells the system that the whole pages inside `part` are not needed now; reading them again brings them back.
  // `part` may be any span; bytes outside this file are ignored.
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  void unmap();

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int64_t modified_ns_ = 0;
};

}  // namespace drafthorse
