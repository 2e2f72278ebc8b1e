#include "weights/hub_snapshot.h"

#include <fstream>

#include "core/safe_path.h"

namespace drafthorse {

namespace fs = std::filesystem;

std::optional<fs::path> find_snapshot(const fs::path& repository, const std::string& revision) {
  std::error_code error;
  if (is_safe_component(revision) && fs::is_directory(repository / "snapshots" / revision, error)) {
    return repository / "snapshots" / revision;
  }
  if (!is_safe_path(revision)) return std::nullopt;
  std::ifstream in(repository / "refs" / revision);
  std::string commit;
  in >> commit;
  if (!is_safe_component(commit) || !fs::is_directory(repository / "snapshots" / commit, error)) return std::nullopt;
  return repository / "snapshots" / commit;
}

}  // namespace drafthorse
