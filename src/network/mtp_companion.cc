#include "network/mtp_companion.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "weights/hub_snapshot.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// How much of the model's name a companion's name shares: the length of STEM, or 0.
size_t shared_stem(const std::string& companion, const std::string& model) {
  const std::string name = lower_case(companion), other = lower_case(model);
  const size_t at = name.rfind("-mtp");
  if (at == std::string::npos || at == 0 || name == other) return 0;
  if (at + 4 != name.size() && name[at + 4] != '-') return 0;
  if (!other.starts_with(name.substr(0, at))) return 0;
  return other.size() == at || other[at] == '-' ? at : 0;
}

// A model's folder, or its repository in the hub's cache.
struct Place {
  fs::path folder;
  std::string organisation, name;  // organisation: of a repository, else empty
  bool repository = false;
};

Place place_of(const fs::path& folder, bool repository) {
  Place place{folder, {}, folder.filename().string(), repository};
  if (!repository) return place;
  place.name.erase(0, kHubRepository.size());
  if (const size_t at = place.name.find("--"); at != std::string::npos) {
    place.organisation = place.name.substr(0, at);
    place.name.erase(0, at + 2);
  }
  return place;
}

bool is_repository(const fs::path& folder) { return folder.filename().string().starts_with(kHubRepository); }

// What a repository's main branch was when it was downloaded, or its only snapshot.
std::optional<fs::path> snapshot_of(const fs::path& repository) {
  if (const auto current = find_snapshot(repository, "main")) return current;
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(repository / "snapshots", error), end; !error && entry != end;
       entry.increment(error)) {
    found.push_back(entry->path());
  }
  if (found.size() != 1 || !fs::is_directory(found[0], error)) return std::nullopt;
  return found[0];
}

// Those of the best names; with several, those of the model's own organisation.
std::vector<Place> best_companions(const Place& model) {
  std::vector<Place> best;
  size_t longest = 1;
  std::error_code error;
  for (fs::directory_iterator entry(model.folder.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (model.repository && !is_repository(entry->path())) continue;
    const Place place = place_of(entry->path(), model.repository);
    const size_t stem = shared_stem(place.name, model.name);
    if (stem < longest || !entry->is_directory(ignored)) continue;
    if (stem > longest) best.clear();
    longest = stem;
    best.push_back(place);
  }
  const auto own = [&](const Place& place) { return place.organisation == model.organisation; };
  if (std::any_of(best.begin(), best.end(), own)) {
    std::erase_if(best, [&](const Place& place) { return !own(place); });
  }
  return best;
}

}  // namespace

fs::path find_companion(const fs::path& model) {
  std::error_code error;
  const fs::path folder = fs::canonical(model, error);
  if (error || !fs::is_directory(folder, error)) return {};
  const fs::path repository = folder.parent_path().parent_path();
  const bool cached = folder.parent_path().filename() == "snapshots" && is_repository(repository);
  const std::vector<Place> best = best_companions(place_of(cached ? repository : folder, cached));
  if (best.size() == 1) return cached ? snapshot_of(best[0].folder).value_or(fs::path()) : best[0].folder;
  if (best.size() > 1) {
    std::vector<std::string> names;
    for (const Place& place : best) names.push_back(place.folder.filename().string());
    std::sort(names.begin(), names.end());
    spdlog::warn("{}: several folders beside it hold a drafting head ({}); name one with --mtp", model.string(),
                 fmt::join(names, ", "));
  }
  return {};
}

}  // namespace drafthorse
