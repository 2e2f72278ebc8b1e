#pragma once
// The Hugging Face cache on disk, as every program of that world lays it out:
//   models--ORG--NAME/blobs/ETAG            contents (ETAG.incomplete while it arrives)
//   models--ORG--NAME/snapshots/COMMIT/FILE symbolic links to blobs
//   models--ORG--NAME/refs/REVISION         a file that holds the commit
//   .locks/models--ORG--NAME/ETAG.lock      held by whoever downloads that blob

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace drafthorse {

std::filesystem::path repo_folder(const std::filesystem::path& cache, const std::string& repo);

// Folder of the snapshot that a branch, tag or commit names; nothing when it is not there.
std::optional<std::filesystem::path> find_snapshot(const std::filesystem::path& cache, const std::string& repo,
                                                   const std::string& revision);

// A blob of any repository with this name (a SHA-256, for large files); nothing when there is none.
std::optional<std::filesystem::path> find_blob(const std::filesystem::path& cache, const std::string& etag);

// Makes snapshots/COMMIT/FILE point at the blob, and refs/REVISION hold the commit. Error: io.
Status link_snapshot(const std::filesystem::path& cache, const std::string& repo, const std::string& commit,
                     const std::string& file, const std::string& etag);
Status write_ref(const std::filesystem::path& cache, const std::string& repo, const std::string& revision,
                 const std::string& commit);

// An exclusive lock on a file, as long as it lives. It never deletes the file.
class FileLock {
 public:
  // Waits while another program holds it; on_wait is called once before waiting, cancelled is polled.
  static Result<FileLock> take(const std::filesystem::path& file, const std::function<void()>& on_wait,
                               const std::function<bool()>& cancelled);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};
std::filesystem::path lock_file(const std::filesystem::path& cache, const std::string& repo, const std::string& etag);

// A model that lies in the cache or in the model folder.
struct ModelOnDisk {
  std::string name;            // what --model takes
  std::filesystem::path path;  // GGUF file, or folder of safetensors
  uint64_t bytes = 0;
};
// Complete models of the hub cache. Folders that are no model (datasets, broken links) are left out.
std::vector<ModelOnDisk> list_hub_cache(const std::filesystem::path& cache);
// GGUF files and safetensors folders of a plain folder.
std::vector<ModelOnDisk> list_model_folder(const std::filesystem::path& folder);

// True when the folder holds config.json and every shard that its index names.
bool is_complete_safetensors(const std::filesystem::path& folder);
// "x-00001-of-00003.gguf" and the like: the number of parts, 1 for any other name.
int split_parts(std::string_view file);
// The name of part `part` (from 1) of a split file.
std::string split_part_name(std::string_view file, int part);
// True when `quant` stands in the file name between characters that are no letters or digits, in any case.
bool has_quant(std::string_view file, std::string_view quant);

}  // namespace drafthorse
