#pragma once
// What people call models: hf:org/repo[:file-or-quant][@revision], short names of a catalogue, paths.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace drafthorse {

// A repository of the hub and the part of it that is wanted.
struct HubName {
  std::string repo;               // "org/name"
  std::string file;               // a file of it ("model-q4_0.gguf"), else empty
  std::string quant;              // a quantisation to look for in file names ("Q4_K_M"), else empty
  std::string revision = "main";  // branch, tag or commit
  std::string text() const;       // as typed: "hf:org/name:Q4_K_M@main"
};

// Parses "hf:org/repo[:file-or-quant][@revision]". Error: invalid_argument that shows the form.
Result<HubName> parse_hub_name(std::string_view text);

// A model that is known by a short name. One without a hub name comes with the program: a folder of safetensors.
struct CatalogueEntry {
  std::string_view alias;
  std::string_view hub;       // HubName as text, or empty
  std::string_view file;      // name of the file or folder on disk
  std::string_view sha256;    // pinned contents, or empty
  uint64_t size = 0;          // bytes of the pinned file
  std::string_view package;   // a Python package that carries the file, "name==version", or empty
  uint64_t package_size = 0;  // bytes of that package, for progress
  std::string_view about;
  bool shipped() const { return hub.empty(); }
};
std::span<const CatalogueEntry> catalogue();
const CatalogueEntry& default_model();
const CatalogueEntry& demo_model();
const CatalogueEntry* find_in_catalogue(std::string_view alias);

// The nearest of `candidates` to a mistyped word, when it is near enough to be meant.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace drafthorse
