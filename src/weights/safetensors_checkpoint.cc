// A folder with config.json and safetensors files as a Checkpoint.

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "weights/checkpoint_files.h"
#include "weights/json_file.h"
#include "weights/mlx_quantisation.h"
#include "weights/safetensors.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

Error file_error(const fs::path& path, ErrorKind kind, const std::string& text) {
  return {kind, fmt::format("{}: {}", path.string(), text), {}};
}

// Which file holds which tensors, as model.safetensors.index.json says.
using WeightMap = std::map<std::string, std::set<std::string>>;

Result<WeightMap> read_index(const fs::path& path) {
  Result<boost::json::object> index = read_json_object(path);
  if (!index) return index.error();
  const boost::json::value* map = index->if_contains("weight_map");
  if (!map || !map->is_object()) return file_error(path, ErrorKind::corrupt, "expected the object \"weight_map\"");
  WeightMap result;
  for (const auto& item : map->get_object()) {
    const std::string tensor(item.key());
    if (!item.value().is_string()) {
      return file_error(path, ErrorKind::corrupt, fmt::format("tensor \"{}\": expected a file name", tensor));
    }
    const std::string file(item.value().get_string());
    // A file name and nothing else: an index must not lead out of its folder.
    if (fs::path(file).filename() != file || !file.ends_with(".safetensors")) {
      return file_error(path, ErrorKind::corrupt,
                        fmt::format("tensor \"{}\": expected the name of a *.safetensors file beside it, found \"{}\"",
                                    tensor, file));
    }
    result[file].insert(tensor);
  }
  return result;
}

// Without an index: every model*.safetensors, or when there is none every *.safetensors.
Result<std::vector<fs::path>> list_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> all, models;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".safetensors") continue;
    all.push_back(entry->path());
    if (entry->path().filename().string().starts_with("model")) models.push_back(entry->path());
  }
  if (error) return file_error(folder, ErrorKind::io, "cannot list the folder: " + error.message());
  std::vector<fs::path> files = models.empty() ? all : models;
  std::sort(files.begin(), files.end());
  if (files.empty()) return file_error(folder, ErrorKind::not_found, "the folder holds no *.safetensors file");
  return files;
}

// Adds one file's tensors. expected: what the index says is in it; nullptr without an index.
Status add_file(const fs::path& path, const std::set<std::string>* expected, CheckpointParts& parts,
                std::set<std::string>& names) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) return file.error();
  Result<std::vector<TensorView>> tensors = parse_safetensors(file->bytes());
  if (!tensors) return tensors.error().with_context(path.string());
  std::set<std::string> missing;
  if (expected) missing = *expected;
  for (TensorView& tensor : *tensors) {
    if (expected && missing.erase(tensor.name) == 0) {
      return file_error(path, ErrorKind::corrupt,
                        fmt::format("tensor \"{}\" is not in the index for this file", tensor.name));
    }
    if (!names.insert(tensor.name).second) {
      return file_error(path, ErrorKind::corrupt, fmt::format("tensor \"{}\" is in another file too", tensor.name));
    }
    parts.tensors.push_back(std::move(tensor));
  }
  if (!missing.empty()) {
    return file_error(path, ErrorKind::corrupt,
                      fmt::format("tensor \"{}\" is missing, but the index says that it is here", *missing.begin()));
  }
  parts.files.push_back(std::move(*file));
  return {};
}

Status add_files(const fs::path& folder, CheckpointParts& parts) {
  const fs::path index_path = folder / "model.safetensors.index.json";
  std::set<std::string> names;
  std::error_code error;
  if (fs::exists(index_path, error)) {
    const Result<WeightMap> index = read_index(index_path);
    if (!index) return index.error();
    for (const auto& [file, tensors] : *index) {
      if (Status status = add_file(folder / file, &tensors, parts, names); !status) return status;
    }
    return {};
  }
  const Result<std::vector<fs::path>> files = list_files(folder);
  if (!files) return files.error();
  for (const fs::path& file : *files) {
    if (Status status = add_file(file, nullptr, parts, names); !status) return status;
  }
  return {};
}

// Folds MLX's triples and makes the checkpoint.
Result<std::shared_ptr<const Checkpoint>> fold(CheckpointParts parts) {
  Result<std::vector<TensorView>> folded = fold_mlx_triples(std::move(parts.tensors), parts.config);
  if (!folded) return folded.error().with_context(parts.path.string());
  parts.tensors = std::move(*folded);
  return make_checkpoint(std::move(parts));
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> open_safetensors_file(const fs::path& file,
                                                                const boost::json::object& config) {
  CheckpointParts parts;
  parts.kind = Checkpoint::Kind::safetensors;
  parts.path = file;
  parts.config = config;
  std::set<std::string> names;
  if (Status status = add_file(file, nullptr, parts, names); !status) return status.error();
  return fold(std::move(parts));
}

Result<std::shared_ptr<const Checkpoint>> open_safetensors(const fs::path& folder) {
  CheckpointParts parts;
  parts.kind = Checkpoint::Kind::safetensors;
  parts.path = folder;
  Result<boost::json::object> config = read_json_object(folder / "config.json");
  if (!config) return config.error();
  parts.config = std::move(*config);
  if (Status status = add_files(folder, parts); !status) return status.error();
  return fold(std::move(parts));
}

}  // namespace drafthorse
