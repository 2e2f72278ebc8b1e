#pragma once
// A model on disk: one GGUF file (or its splits), or a folder of safetensors with config.json.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <boost/json/object.hpp>

#include "core/result.h"
#include "weights/tensor.h"

namespace drafthorse {

// One GGUF metadata value; integers of every width become int64 (u64 beyond int64 is refused).
using GgufValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;
using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

class Checkpoint {
 public:
  enum class Kind { gguf, safetensors };

  // Opens a .gguf file (any part of a split set), a folder with *.safetensors and config.json, or a folder that
  // holds exactly one GGUF model. Every header, offset and shape is checked before use.
  // Errors name the file, the tensor, what was expected and what was found.
  static Result<std::shared_ptr<const Checkpoint>> open(const std::filesystem::path& path);

  virtual ~Checkpoint() = default;
  virtual Kind kind() const = 0;
  virtual const std::filesystem::path& path() const = 0;  // file or folder that was opened
  // All tensors. MLX triples (weight, scales, biases) appear once, under the weight's name.
  virtual const std::vector<TensorView>& tensors() const = 0;
  virtual const TensorView* find(std::string_view name) const = 0;  // nullptr when absent
  virtual const boost::json::object& config() const = 0;            // config.json; empty for GGUF
  virtual const GgufMetadata& metadata() const = 0;                 // GGUF key-values; empty for safetensors
  // A short text that identifies the weights on this machine (path, sizes, mtimes), for caches on disk.
  virtual std::string identity() const = 0;
  // Tells the system that the tensor's pages are no longer needed (they can be read again at any time).
  virtual void release(const TensorView& tensor) const = 0;
};

}  // namespace drafthorse
