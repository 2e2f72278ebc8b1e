// Where a drafting head lies outside the trunk's checkpoint.

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

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

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// How much of the model's name a companion's name "STEM-MTP-4bit" or "STEM-mtp" shares: the length of STEM when the
// model is called STEM or STEM-something, else 0.
size_t shared_stem(const std::string& companion, const std::string& model) {
  const std::string name = lower_case(companion), other = lower_case(model);
  const size_t at = name.rfind("-mtp");
  if (at == std::string::npos || at == 0 || name == other) return 0;
  if (at + 4 != name.size() && name[at + 4] != '-') return 0;
  if (!other.starts_with(name.substr(0, at))) return 0;
  return other.size() == at || other[at] == '-' ? at : 0;
}

// The folder beside the model's that shares most of its name; empty when there is none or several share as much.
fs::path find_companion(const fs::path& model) {
  std::error_code error;
  const fs::path folder = fs::canonical(model, error);
  if (error || !fs::is_directory(folder, error)) return {};
  std::vector<fs::path> best;
  size_t longest = 1;
  for (fs::directory_iterator entry(folder.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const size_t stem = shared_stem(entry->path().filename().string(), folder.filename().string());
    if (stem < longest || !entry->is_directory(ignored)) continue;
    if (stem > longest) best.clear();
    longest = stem;
    best.push_back(entry->path());
  }
  if (best.size() == 1) return best.front();
  if (best.size() > 1) {
    std::vector<std::string> names;
    for (const fs::path& path : best) names.push_back(path.filename().string());
    std::sort(names.begin(), names.end());
    spdlog::warn("{}: several folders beside it hold a drafting head ({}); name one with --mtp", model.string(),
                 fmt::join(names, ", "));
  }
  return {};
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
