// Any bytes as a safetensors file beside any config.json: the parser and the folding of MLX packs refuse them or give
// views that lie inside them and can be read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <boost/json/parse.hpp>

#include "weights/mlx_quantisation.h"
#include "weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace drafthorse;
  if (size == 0) return 0;
  // The first byte says how much of the end is the config.
  const size_t config_size = std::min<size_t>(size - 1, data[0]);
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1 - config_size));
  boost::system::error_code error;
  const auto value = boost::json::parse(
      std::string_view(reinterpret_cast<const char*>(data) + size - config_size, config_size), error);
  const boost::json::object config = !error && value.is_object() ? value.get_object() : boost::json::object{};
  auto parsed = parse_safetensors(bytes);
  if (!parsed.ok()) return 0;
  const auto folded = fold_mlx_triples(std::move(*parsed), config);
  if (!folded.ok()) return 0;
  for (const TensorView& tensor : *folded) {
    if (tensor.columns() > 1 << 16 || tensor.rows() < 1) continue;
    std::vector<float> row(static_cast<size_t>(tensor.columns()));
    (void)dequantise(tensor, tensor.rows() - 1, 1, row).ok();
  }
  return 0;
}
