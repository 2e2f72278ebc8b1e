// pull and list: models on disk.

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "cli/commands.h"
#include "cli/hub_cache.h"
#include "cli/interrupt.h"
#include "cli/model_name.h"
#include "cli/model_setup.h"
#include "cli/model_source.h"
#include "cli/progress_bar.h"

namespace drafthorse {
namespace {

struct ListedModel {
  ModelOnDisk model;
  bool is_default = false;
};

std::vector<ListedModel> listed_models(const Options& options) {
  SourceOptions source = source_options(options);
  std::vector<ListedModel> listed;
  for (const ModelOnDisk& model : list_model_folder(options.models_dir)) listed.push_back({model});
  for (const ModelOnDisk& model : list_hub_cache(options.environment.hub_cache)) listed.push_back({model});
  std::optional<std::filesystem::path> chosen = find_on_disk("", source);
  for (ListedModel& entry : listed) {
    std::error_code error;
    entry.is_default = chosen && std::filesystem::equivalent(entry.model.path, *chosen, error);
  }
  return listed;
}

void print_json(const std::vector<ListedModel>& listed, const SourceOptions& source) {
  boost::json::array models, names;
  for (const ListedModel& entry : listed) {
    models.push_back({{"name", entry.model.name},
                      {"path", entry.model.path.string()},
                      {"bytes", entry.model.bytes},
                      {"default", entry.is_default}});
  }
  for (const CatalogueEntry& entry : catalogue()) {
    bool there = find_on_disk(std::string(entry.alias), source).has_value();
    names.push_back({{"name", entry.alias},
                     {"about", entry.about},
                     {"source", entry.shipped() ? "comes with the program" : entry.hub},
                     {"on_disk", there}});
  }
  fmt::print("{}\n", boost::json::serialize(boost::json::object{{"models", models}, {"catalogue", names}}));
}

}  // namespace

Status pull_command(const Options& options) {
  watch_interrupts();
  SourceOptions source = source_options(options);
  source.refresh = true;
  Result<std::filesystem::path> path = resolve_model(options.model, source);
  if (!path) return path.error();
  fmt::print("{}\n", path->string());
  return {};
}

Status list_command(const Options& options) {
  SourceOptions source = source_options(options);
  std::vector<ListedModel> listed = listed_models(options);
  if (options.json) {
    print_json(listed, source);
    return {};
  }
  size_t width = 20;
  for (const ListedModel& entry : listed) width = std::max(width, entry.model.name.size());
  if (listed.empty()) fmt::print("no models on this machine yet\n");
  for (const ListedModel& entry : listed) {
    fmt::print("{:{}}  {:>8}  {}{}\n", entry.model.name, width, human_bytes(entry.model.bytes),
               entry.model.path.string(), entry.is_default ? "  (default)" : "");
  }
  fmt::print("\nnames that drafthorse pull knows:\n");
  for (const CatalogueEntry& entry : catalogue()) {
    bool there = find_on_disk(std::string(entry.alias), source).has_value();
    fmt::print("{:{}}  {}{}\n", entry.alias, width, entry.about, there ? "  (on this machine)" : "");
  }
  fmt::print("{:{}}  {}\n", "hf:org/repo[:quant]", width, "any GGUF or safetensors model of the hub");
  return {};
}

}  // namespace drafthorse
