// Llama 3.x, SmolLM2 and Mistral: the plain skeleton; GGUF files store the rows of q and k for interleaved rope.

#include "network/dense_config.h"
#include "network/families.h"

namespace drafthorse {
namespace {

Result<DenseConfig> read_config(const Checkpoint& checkpoint) {
  ConfigReader reader(checkpoint.config(), config_place(checkpoint));
  DenseConfig config = read_hugging_face_common(reader, {});
  config.family = "llama";
  config.qkv_bias = config.output_bias = reader.boolean("attention_bias", false) ? Bias::required : Bias::none;
  config.mlp_bias = reader.boolean("mlp_bias", false) ? Bias::required : Bias::none;
  // Mistral's window is on every layer unless layer_types says otherwise. A Llama file with a window contradicts the
  // architecture unless its layer_types say where it applies.
  const bool mistral = reader.text("model_type") == "mistral";
  const int window = reader.size("sliding_window", 0);
  if (window > 0 && !mistral && !reader.has("layer_types")) {
    reader.fail(ErrorKind::unsupported, "sliding_window",
                "a llama model has no window unless layer_types marks layers");
  }
  config.windows = read_windows(reader, config.layers, window, 0);
  if (Status status = reader.check_all_read(harmless_config_keys()); !status) return status.error();
  return config;
}

}  // namespace

Result<Network> read_llama(std::shared_ptr<const Checkpoint> checkpoint) {
  const bool gguf = checkpoint->kind() == Checkpoint::Kind::gguf;
  Result<DenseConfig> config = gguf ? read_gguf_config(*checkpoint, "llama") : read_config(*checkpoint);
  if (!config) return config.error();
  config->rope_interleaved = gguf;
  return read_dense_decoder(std::move(checkpoint), *config);
}

}  // namespace drafthorse
