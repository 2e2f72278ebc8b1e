#include "core/cgroup.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace drafthorse {
namespace {

namespace fs = std::filesystem;
using Visit = std::function<void(const fs::path&, bool)>;

void each_level(const fs::path& mount, std::string path, bool v2, const Visit& visit) {
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    visit(path.empty() ? mount : mount / path.substr(1), v2);
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return;
    path.resize(slash);
  }
}

bool lists(const std::string& controllers, std::string_view controller) {
  std::istringstream in(controllers);
  for (std::string name; std::getline(in, name, ',');)
    if (name == controller) return true;
  return false;
}

}  // namespace

void each_cgroup(const fs::path& root, std::string_view controller, const Visit& visit) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  if (!file) {
    visit(mounts, true);
    visit(mounts / controller, false);
  }
  // Lines "hierarchy:controllers:path"; v2 has hierarchy 0 and no controllers.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/' || path.find("..") != std::string::npos) path.assign(1, '/');
    if (controllers.empty()) {
      each_level(mounts, path, true, visit);
    } else if (lists(controllers, controller)) {
      // The mount has the name of one controller, or of all of them.
      for (const std::string& mount : std::set<std::string>{std::string(controller), controllers})
        each_level(mounts / mount, path, false, visit);
    }
  }
}

}  // namespace drafthorse
