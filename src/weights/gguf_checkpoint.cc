// A GGUF model as a Checkpoint: one file, or the parts NAME-00001-of-0000N.gguf of a split one.

#include <set>

#include <fmt/format.h>

#include "weights/checkpoint_files.h"
#include "weights/gguf.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

// The other parts' paths, in order, from this part's name and the split.count it declares.
Result<std::vector<fs::path>> split_paths(const fs::path& path, int64_t count) {
  const std::string stem = path.stem().string();
  constexpr size_t kSuffix = sizeof("-00001-of-00002") - 1;
  const std::string ending = fmt::format("-of-{:05}", count);
  if (stem.size() <= kSuffix || !stem.ends_with(ending) || stem[stem.size() - kSuffix] != '-') {
    return Error{ErrorKind::corrupt,
                 fmt::format("{}: it is one of {} parts; expected a name that ends in \"-00001{}.gguf\"", path.string(),
                             count, ending),
                 {}};
  }
  const std::string prefix = stem.substr(0, stem.size() - kSuffix);
  std::vector<fs::path> paths;
  for (int64_t part = 1; part <= count; ++part) {
    paths.push_back(path.parent_path() / fmt::format("{}-{:05}{}{}", prefix, part, ending, path.extension().string()));
  }
  return paths;
}

int64_t integer_or(const GgufMetadata& metadata, std::string_view key, int64_t fallback) {
  const int64_t* value = find_value<int64_t>(metadata, key);
  return value ? *value : fallback;
}

struct Part {
  MappedFile file;
  GgufContents contents;
};

Result<Part> open_part(const fs::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) return file.error();
  Result<GgufContents> contents = parse_gguf(file->bytes());
  if (!contents) return contents.error().with_context(path.string());
  return Part{std::move(*file), std::move(*contents)};
}

Error split_error(const fs::path& path, const std::string& text) {
  return {ErrorKind::corrupt, fmt::format("{}: {}", path.string(), text), {}};
}

// Opens every part and checks that they belong together.
Result<std::vector<Part>> open_parts(const fs::path& path, Part opened) {
  constexpr int64_t kMaxParts = 99'999;  // the file names have five digits
  const int64_t count = integer_or(opened.contents.metadata, "split.count", 1);
  std::vector<Part> parts;
  if (count <= 1) {
    parts.push_back(std::move(opened));
    return parts;
  }
  if (count > kMaxParts) return split_error(path, fmt::format("split.count is {}", count));
  Result<std::vector<fs::path>> paths = split_paths(path, count);
  if (!paths) return paths.error();
  for (int64_t i = 0; i < count; ++i) {
    const fs::path& part_path = (*paths)[static_cast<size_t>(i)];
    Result<Part> part = open_part(part_path);
    if (!part) return part.error().with_context(fmt::format("part {} of {} of a split model", i + 1, count));
    const int64_t number = integer_or(part->contents.metadata, "split.no", -1);
    const int64_t declared = integer_or(part->contents.metadata, "split.count", -1);
    if (number != i || declared != count) {
      return split_error(part_path,
                         fmt::format("expected split.no {} of {}, found {} of {}", i, count, number, declared));
    }
    parts.push_back(std::move(*part));
  }
  return parts;
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> open_gguf(const fs::path& path) {
  Result<Part> opened = open_part(path);
  if (!opened) return opened.error();
  Result<std::vector<Part>> parts = open_parts(path, std::move(*opened));
  if (!parts) return parts.error();
  CheckpointParts result;
  result.kind = Checkpoint::Kind::gguf;
  result.path = path;
  result.metadata = std::move(parts->front().contents.metadata);
  std::set<std::string> names;
  for (Part& part : *parts) {
    for (TensorView& tensor : part.contents.tensors) {
      if (!names.insert(tensor.name).second) {
        return split_error(part.file.path(), fmt::format("tensor \"{}\" is in another part too", tensor.name));
      }
      result.tensors.push_back(std::move(tensor));
    }
    result.files.push_back(std::move(part.file));
  }
  const auto found = static_cast<int64_t>(result.tensors.size());
  const int64_t expected = integer_or(result.metadata, "split.tensors.count", found);
  if (expected != found) {
    return split_error(path, fmt::format("expected {} tensors in all parts, found {}", expected, found));
  }
  return make_checkpoint(std::move(result));
}

}  // namespace drafthorse
