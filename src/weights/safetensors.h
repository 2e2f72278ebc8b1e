#pragma once
// The safetensors container and folders of it: plain tensors, and MLX's quantised triples folded into one view.

#include <memory>
#include <span>
#include <vector>

#include "core/result.h"
#include "weights/checkpoint.h"

namespace drafthorse {

// Reads one file's bytes, which are untrusted: u64 header length, JSON header, data. The views borrow `bytes`.
// Messages do not name the file. Errors: corrupt (header, dtype sizes, offsets, overlaps), unsupported (dtype).
Result<std::vector<TensorView>> parse_safetensors(std::span<const std::byte> bytes);

// Opens a folder with config.json and one or more *.safetensors (with or without model.safetensors.index.json).
Result<std::shared_ptr<const Checkpoint>> open_safetensors(const std::filesystem::path& folder);

// Opens one .safetensors file that lies beside a model or belongs to it: `config` is what says how its weights are
// quantised where their shapes leave that open, and becomes the checkpoint's config().
Result<std::shared_ptr<const Checkpoint>> open_safetensors_file(const std::filesystem::path& file,
                                                                const boost::json::object& config);

}  // namespace drafthorse
