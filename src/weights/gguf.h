#pragma once
// The GGUF container, versions 2 and 3 (docs/architecture.md, "Weight formats"): one file's metadata and tensors.

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "weights/checkpoint.h"

namespace drafthorse {

struct GgufContents {
  GgufMetadata metadata;
  std::vector<TensorView> tensors;  // in file order; views of the parsed bytes
};

// Reads one file's bytes, which are untrusted. The views borrow `bytes`. Messages do not name the file.
// Errors: corrupt (truncated, counts, offsets or sizes that contradict each other, duplicate names),
// unsupported (other versions, big-endian files, tensor types without a reader, nested arrays).
Result<GgufContents> parse_gguf(std::span<const std::byte> bytes);

// Opens a .gguf file; when it is one part of a split model, all parts beside it.
Result<std::shared_ptr<const Checkpoint>> open_gguf(const std::filesystem::path& path);

// Typed metadata lookups. nullptr when the key is absent or holds another type.
template <class T>
const T* find_value(const GgufMetadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace drafthorse
