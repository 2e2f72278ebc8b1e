#pragma once
// A small JSON file beside a checkpoint.

#include <filesystem>

#include <boost/json/object.hpp>

#include "core/result.h"

namespace drafthorse {

// The object in a file of at most 64 MiB. Errors name the file: those of MappedFile::open, and corrupt when it is too
// large, no JSON, or no object.
Result<boost::json::object> read_json_object(const std::filesystem::path& path);

}  // namespace drafthorse
