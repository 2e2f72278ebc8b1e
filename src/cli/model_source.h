#pragma once
// From what a person typed after --model to a path on disk, fetching what is missing.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cli/environment.h"
#include "core/result.h"

namespace drafthorse {

struct SourceOptions {
  Environment environment;
  std::filesystem::path models;  // our own model folder
  bool terminal = false;         // progress bars rather than lines
  bool refresh = false;          // ask the hub even when the cache has the model (`pull`)
  std::function<bool()> cancelled;
};

// `name`: empty (the default model), a path, a short name of the catalogue, hf:org/repo…, or a file of the model
// folder. Errors: not_found (with what may have been meant) and those of the sources.
Result<std::filesystem::path> resolve_model(const std::string& name, const SourceOptions& options);

// The same without any network: nothing when the model is not on disk.
std::optional<std::filesystem::path> find_on_disk(const std::string& name, const SourceOptions& options);

}  // namespace drafthorse
