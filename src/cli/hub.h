#pragma once
// Models of the Hugging Face hub: found in its cache, else fetched into it; resumable and verified.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cli/environment.h"
#include "cli/model_name.h"
#include "core/result.h"

namespace drafthorse {

struct HubOptions {
  std::string endpoint, token;
  std::filesystem::path cache;
  long connect_seconds = 15;
  bool terminal = false;            // progress bars rather than lines
  std::function<bool()> cancelled;  // Ctrl-C
  std::string sha256;               // when set, the only contents that are accepted (one file)
};
HubOptions hub_options(const Environment& environment);

// The model when it lies complete in the cache: a GGUF file (the first of a split) or a snapshot folder.
std::optional<std::filesystem::path> find_in_hub_cache(const std::filesystem::path& cache, const HubName& name);

// Fetches what is missing and returns the model's path in the cache. A file appears under its final name only after
// its digest was checked; what arrived of an interrupted one is kept and resumed.
// Errors: unauthorized (401, 403, gated: what to accept and set), not_found (repository, revision, file, with what
// there is), io (network, disk full), corrupt (wrong digest), cancelled.
Result<std::filesystem::path> pull_from_hub(const HubName& name, const HubOptions& options);

}  // namespace drafthorse
