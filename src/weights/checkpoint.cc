#include "weights/checkpoint.h"

#include <algorithm>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weights/gguf.h"
#include "weights/safetensors.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

// The .gguf files of a folder that are models: projectors of other modalities ("mmproj…") are left out, and a split
// model counts once, by its first part.
std::vector<fs::path> gguf_models(const std::vector<fs::path>& files) {
  std::vector<fs::path> models;
  for (const fs::path& file : files) {
    const std::string stem = file.stem().string();
    if (file.extension() != ".gguf" || stem.starts_with("mmproj")) continue;
    const size_t of = stem.rfind("-of-");
    const bool later_part =
        of != std::string::npos && of >= 6 && stem[of - 6] == '-' && stem.substr(of - 5, 5) != "00001";
    if (!later_part) models.push_back(file);
  }
  return models;
}

Result<std::vector<fs::path>> folder_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    files.push_back(entry->path());
  }
  if (error) {
    return Error{ErrorKind::io, fmt::format("{}: cannot list the folder: {}", folder.string(), error.message()), {}};
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::shared_ptr<const Checkpoint>> open_folder(const fs::path& folder) {
  const Result<std::vector<fs::path>> files = folder_files(folder);
  if (!files) return files.error();
  const bool has_safetensors =
      std::any_of(files->begin(), files->end(), [](const fs::path& f) { return f.extension() == ".safetensors"; });
  if (has_safetensors) return open_safetensors(folder);
  const std::vector<fs::path> models = gguf_models(*files);
  if (models.size() == 1) return open_gguf(models.front());
  if (models.empty()) {
    return Error{ErrorKind::not_found,
                 fmt::format("{}: the folder holds no *.safetensors and no *.gguf file", folder.string()),
                 {}};
  }
  std::vector<std::string> names;
  for (const fs::path& model : models) names.push_back(model.filename().string());
  return Error{
      ErrorKind::invalid_argument,
      fmt::format("{}: the folder holds several models; name one of {}", folder.string(), fmt::join(names, ", ")),
      {}};
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Error{ErrorKind::not_found, fmt::format("{}: no such file or folder", path.string()), {}};
  }
  if (fs::is_directory(status)) return open_folder(path);
  if (path.extension() == ".safetensors") {
    return Error{ErrorKind::invalid_argument,
                 fmt::format("{}: give the folder that holds it and its config.json", path.string()),
                 {}};
  }
  return open_gguf(path);
}

}  // namespace drafthorse
