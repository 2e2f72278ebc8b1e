#pragma once
// Digests of files: SHA-256 (large files of the hub, pinned models) and git's blob SHA-1 (small files of the hub).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "core/result.h"

namespace drafthorse {

using ByteProgress = std::function<bool(uint64_t done, uint64_t total)>;  // false stops

// Lower-case hex. Errors: io (the file cannot be read), cancelled.
Result<std::string> sha256_of_file(const std::filesystem::path& path, const ByteProgress& progress = {});
// SHA-1 of "blob SIZE\0" and the contents, as git and the hub name small files.
Result<std::string> git_blob_of_file(const std::filesystem::path& path);

}  // namespace drafthorse
