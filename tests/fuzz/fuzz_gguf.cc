// Any bytes as a GGUF file: the parser refuses them or gives views that lie inside them and can be read.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "weights/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace drafthorse;
  const auto parsed = parse_gguf(std::as_bytes(std::span(data, size)));
  if (!parsed.ok()) return 0;
  for (const TensorView& tensor : parsed->tensors) {
    if (byte_count(tensor.format, tensor.shape).value() != tensor.data.size()) std::abort();
    if (tensor.columns() > 1 << 16 || tensor.rows() < 1) continue;
    std::vector<float> row(static_cast<size_t>(tensor.columns()));
    (void)dequantise(tensor, tensor.rows() - 1, 1, row).ok();
  }
  return 0;
}
