#pragma once
// The one implementation of Checkpoint: mapped files and the views into them. Private to the room.

#include <memory>
#include <vector>

#include <boost/json/object.hpp>

#include "core/mapped_file.h"
#include "weights/checkpoint.h"

namespace drafthorse {

// What a reader found; `files` own the bytes of `tensors`, whose names are distinct.
struct CheckpointParts {
  Checkpoint::Kind kind = Checkpoint::Kind::gguf;
  std::filesystem::path path;
  std::vector<MappedFile> files;
  std::vector<TensorView> tensors;
  boost::json::object config;
  GgufMetadata metadata;
};

std::shared_ptr<const Checkpoint> make_checkpoint(CheckpointParts parts);

}  // namespace drafthorse
