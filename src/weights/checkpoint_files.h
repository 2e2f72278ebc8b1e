#pragma once
// What the two kinds of Checkpoint do alike with their mapped files. Private to the room.

#include <span>
#include <string>

#include "core/mapped_file.h"
#include "weights/tensor.h"

namespace drafthorse {

// Path, size and modification time of each file, one a line.
std::string files_identity(std::span<const MappedFile> files);
// Gives the tensor's pages back, in whichever file holds them.
void release_pages(std::span<const MappedFile> files, const TensorView& tensor);

}  // namespace drafthorse
