#include "cli/digest.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

namespace drafthorse {
namespace {

Result<std::string> digest_of_file(const std::filesystem::path& path, const EVP_MD* algorithm, bool git_header,
                                   const ByteProgress& progress) {
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  uint64_t size = std::filesystem::file_size(path, error);
  if (!in || error) {
    return Error{ErrorKind::io, fmt::format("{} cannot be read: {}", path.string(), std::strerror(errno)), ""};
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), algorithm, nullptr);
  if (git_header) {
    std::string header = fmt::format("blob {}", size);
    EVP_DigestUpdate(context.get(), header.c_str(), header.size() + 1);
  }
  std::vector<char> buffer(1 << 20);
  uint64_t done = 0;
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(in.gcount()));
    done += static_cast<uint64_t>(in.gcount());
    if (progress && !progress(done, size)) return Error{ErrorKind::cancelled, "stopped", ""};
  }
  if (in.bad()) return Error{ErrorKind::io, fmt::format("{} cannot be read to its end", path.string()), ""};
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), bytes, &length);
  std::string hex;
  for (unsigned i = 0; i < length; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

}  // namespace

Result<std::string> sha256_of_file(const std::filesystem::path& path, const ByteProgress& progress) {
  return digest_of_file(path, EVP_sha256(), false, progress);
}

Result<std::string> git_blob_of_file(const std::filesystem::path& path) {
  return digest_of_file(path, EVP_sha1(), true, {});
}

}  // namespace drafthorse
