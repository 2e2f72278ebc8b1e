// Where a drafting head lies outside the trunk's checkpoint.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "network/mtp_companion.h"
#include "network/mtp_head.h"
#include "weights/json_file.h"
#include "weights/safetensors.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

// In the model's folder.
constexpr const char* kSideFiles[] = {"mtp.safetensors", "mtp/weights.safetensors", "mtp/model.safetensors",
                                      "model-mtp.safetensors", "optiq/mtp.safetensors"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// One file; how it is quantised is said by the config.json beside it, or by the trunk's.
Result<std::shared_ptr<const Checkpoint>> open_file(const fs::path& path, const Checkpoint& trunk) {
  const fs::path own = path.parent_path() / "config.json";
  if (!is_file(own)) return open_safetensors_file(path, trunk.config());
  const Result<boost::json::object> config = read_json_object(own);
  if (!config) return config.error();
  return open_safetensors_file(path, *config);
}

// A folder with a config.json, or one that only holds the head's file.
Result<std::shared_ptr<const Checkpoint>> open_folder(const fs::path& folder, const Checkpoint& trunk) {
  if (is_file(folder / "config.json")) return Checkpoint::open(folder);
  for (const char* name : {"mtp.safetensors", "weights.safetensors", "model.safetensors", "mtp/weights.safetensors",
                           "mtp/model.safetensors", "model-mtp.safetensors"}) {
    if (is_file(folder / name)) return open_file(folder / name, trunk);
  }
  return Checkpoint::open(folder);
}

Result<std::shared_ptr<const Checkpoint>> open_given(const fs::path& path, const Checkpoint& trunk) {
  std::error_code error;
  if (fs::is_directory(path, error)) return open_folder(path, trunk);
  if (path.extension() == ".safetensors" && is_file(path)) return open_file(path, trunk);
  return Checkpoint::open(path);
}

}  // namespace

Result<std::optional<HeadFile>> find_head_file(const Checkpoint& trunk, const HybridConfig& config,
                                               const ReadOptions& options) {
  const auto opened = [](Result<std::shared_ptr<const Checkpoint>> file,
                         bool guessed) -> Result<std::optional<HeadFile>> {
    if (!file) return file.error().with_context("drafting head");
    return std::optional(HeadFile{std::move(*file), guessed});
  };
  if (!options.mtp.empty()) return opened(open_given(options.mtp, trunk), false);
  if (trunk.kind() == Checkpoint::Kind::gguf) return std::optional<HeadFile>();
  if (!config.mtp_file.empty()) {
    const fs::path relative = fs::path(config.mtp_file).lexically_normal();
    if (relative.is_absolute() || (!relative.empty() && *relative.begin() == "..")) {
      return Error{ErrorKind::corrupt,
                   fmt::format("{}: key \"mlx_lm_extra_tensors\": expected a file in the model's folder, found \"{}\"",
                               (trunk.path() / "config.json").string(), config.mtp_file),
                   {}};
    }
    return opened(open_given(trunk.path() / relative, trunk), false);
  }
  for (const char* name : kSideFiles) {
    if (is_file(trunk.path() / name)) return opened(open_file(trunk.path() / name, trunk), false);
  }
  const fs::path companion = find_companion(trunk.path());
  if (companion.empty()) return std::optional<HeadFile>();
  Result<std::shared_ptr<const Checkpoint>> file = open_folder(companion, trunk);
  if (file) return opened(std::move(file), true);
  spdlog::warn("drafting without the head beside the model: {}", file.error().message);
  return std::optional<HeadFile>();
}

}  // namespace drafthorse
