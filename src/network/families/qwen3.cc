// Qwen3 dense: norms on q and k per head, an explicit head_dim, no biases.

#include "network/dense_config.h"
#include "network/families.h"

namespace drafthorse {
namespace {

Result<DenseConfig> read_config(const Checkpoint& checkpoint) {
  ConfigReader reader(checkpoint.config(), config_place(checkpoint));
  DenseConfig config = read_hugging_face_common(reader, {.rope_base = 1e6});
  config.family = "qwen3";
  if (!reader.has("head_dim")) {
    reader.fail(ErrorKind::corrupt, "head_dim", "expected a positive integer, but it is missing");
  }
  config.qkv_bias = config.output_bias = reader.boolean("attention_bias", false) ? Bias::required : Bias::none;
  config.windows = read_qwen_windows(reader, config.layers);
  if (Status status = reader.check_all_read(harmless_config_keys()); !status) return status.error();
  return config;
}

}  // namespace

Result<Network> read_qwen3(std::shared_ptr<const Checkpoint> checkpoint) {
  const bool gguf = checkpoint->kind() == Checkpoint::Kind::gguf;
  Result<DenseConfig> config = gguf ? read_gguf_config(*checkpoint, "qwen3") : read_config(*checkpoint);
  if (!config) return config.error();
  config->qk_norms = true;
  return read_dense_decoder(std::move(checkpoint), *config);
}

}  // namespace drafthorse
