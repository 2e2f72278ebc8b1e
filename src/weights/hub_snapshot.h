#pragma once
// The layout of the hub's cache: a repository's folder, models--ORG--NAME, with snapshots/COMMIT and refs/BRANCH.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace drafthorse {

inline constexpr std::string_view kHubRepository = "models--";  // how the names of repositories' folders begin

// The snapshot folder that a branch, tag or commit names; nothing when it is not there.
std::optional<std::filesystem::path> find_snapshot(const std::filesystem::path& repository,
                                                   const std::string& revision);

}  // namespace drafthorse
