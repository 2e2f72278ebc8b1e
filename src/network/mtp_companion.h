#pragma once
// A drafting head that was published by itself: a folder beside the model's, or a repository beside it in the hub's cache.

#include <filesystem>

namespace drafthorse {

// The folder whose name, "STEM-MTP" or "STEM-MTP-4bit", shares most of the name of the model in `model` (a folder called
// STEM or STEM-something). In the hub's cache (models--ORG--NAME/snapshots/COMMIT) the repositories' names are compared,
// those of one's own organisation first. Empty when there is none, or several share as much: that is logged.
std::filesystem::path find_companion(const std::filesystem::path& model);

}  // namespace drafthorse
