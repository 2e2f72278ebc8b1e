#include "weights/checkpoint_files.h"

#include <cstdint>
#include <system_error>
#include <unordered_map>

#include <fmt/format.h>

namespace drafthorse {
namespace {

class FileCheckpoint final : public Checkpoint {
 public:
  explicit FileCheckpoint(CheckpointParts parts) : parts_(std::move(parts)) {
    for (const TensorView& tensor : parts_.tensors) index_.emplace(tensor.name, &tensor);
  }

  Kind kind() const override { return parts_.kind; }
  const std::filesystem::path& path() const override { return parts_.path; }
  const std::vector<TensorView>& tensors() const override { return parts_.tensors; }
  const boost::json::object& config() const override { return parts_.config; }
  const GgufMetadata& metadata() const override { return parts_.metadata; }

  const TensorView* find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : found->second;
  }

  // Path, size and modification time of each file, one a line.
  std::string identity() const override {
    std::string text;
    for (const MappedFile& file : parts_.files) {
      std::error_code error;
      const std::filesystem::path absolute = std::filesystem::absolute(file.path(), error);
      text += fmt::format("{} {} {}\n", error ? file.path().string() : absolute.string(), file.bytes().size(),
                          file.modified_ns());
    }
    return text;
  }

  void release(const TensorView& tensor) const override {
    const auto address = [](std::span<const std::byte> part) { return reinterpret_cast<uintptr_t>(part.data()); };
    for (const auto part : {tensor.data, tensor.scales, tensor.biases}) {
      for (const MappedFile& file : parts_.files) {
        const uintptr_t begin = address(file.bytes());
        if (address(part) >= begin && address(part) < begin + file.bytes().size()) file.release(part);
      }
    }
  }

 private:
  CheckpointParts parts_;
  std::unordered_map<std::string_view, const TensorView*> index_;  // borrows from parts_.tensors
};

}  // namespace

std::shared_ptr<const Checkpoint> make_checkpoint(CheckpointParts parts) {
  return std::make_shared<FileCheckpoint>(std::move(parts));
}

}  // namespace drafthorse
