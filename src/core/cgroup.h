#pragma once
// The control groups that limit this process, on systems that have them.

#include <filesystem>
#include <functional>
#include <string_view>

namespace drafthorse {

// Calls visit(folder, v2) for the folder of every control group that this process is in, from its own up to the mount,
// where `controller` ("cpu", "memory") keeps its files. Folders need not exist: a container may see its own group as
// the mount and not below it. Reads files under `root` (tests give a folder; "/" is the machine).
void each_cgroup(const std::filesystem::path& root, std::string_view controller,
                 const std::function<void(const std::filesystem::path& folder, bool v2)>& visit);

}  // namespace drafthorse
