#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace drafthorse {
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error system_error(const std::filesystem::path& path, const char* action, int code) {
  const auto kind = code == ENOENT || code == ENOTDIR ? ErrorKind::not_found : ErrorKind::io;
  return {kind, fmt::format("{}: cannot {}: {}", path.string(), action, std::generic_category().message(code)), {}};
}

int64_t modification_time_ns(const struct stat& status) {
#ifdef __APPLE__
  const timespec& time = status.st_mtimespec;
#else
  const timespec& time = status.st_mtim;
#endif
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return system_error(path, "open the file", errno);
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) return system_error(path, "read the file's size", errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorKind::io, fmt::format("{}: expected a regular file", path.string()), {}};
  }
  MappedFile mapped;
  mapped.path_ = path;
  mapped.modified_ns_ = modification_time_ns(status);
  if (status.st_size == 0) return mapped;
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) return system_error(path, "map the file into memory", errno);
  mapped.data_ = static_cast<const std::byte*>(address);
  mapped.size_ = size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  modified_ns_ = other.modified_ns_;
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (!data_ || part.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto file_begin = reinterpret_cast<uintptr_t>(data_), file_end = file_begin + size_;
  auto begin = std::max(reinterpret_cast<uintptr_t>(part.data()), file_begin);
  auto end = std::min(reinterpret_cast<uintptr_t>(part.data()) + part.size(), file_end);
  begin = (begin + page - 1) / page * page;
  // The last page of the file holds nothing after the file's end, so it may go whole.
  if (end != file_end) end = end / page * page;
  if (begin >= end) return;
  // A hint: when the system refuses, the pages merely stay.
  (void)::madvise(const_cast<std::byte*>(data_) + (begin - file_begin), end - begin, MADV_DONTNEED);
}

}  // namespace drafthorse
