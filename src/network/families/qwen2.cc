// Qwen2 and Qwen2.5: biases on q, k and v.

#include "network/dense_config.h"
#include "network/families.h"

namespace drafthorse {
namespace {

Result<DenseConfig> read_config(const Checkpoint& checkpoint) {
  ConfigReader reader(checkpoint.config(), config_place(checkpoint));
  DenseConfig config = read_hugging_face_common(reader, {.rope_base = 1e6});
  config.family = "qwen2";
  config.windows = read_qwen_windows(reader, config.layers);
  if (Status status = reader.check_all_read(harmless_config_keys()); !status) return status.error();
  return config;
}

}  // namespace

Result<Network> read_qwen2(std::shared_ptr<const Checkpoint> checkpoint) {
  const bool gguf = checkpoint->kind() == Checkpoint::Kind::gguf;
  Result<DenseConfig> config = gguf ? read_gguf_config(*checkpoint, "qwen2") : read_config(*checkpoint);
  if (!config) return config.error();
  config->qkv_bias = Bias::required;
  return read_dense_decoder(std::move(checkpoint), *config);
}

}  // namespace drafthorse
