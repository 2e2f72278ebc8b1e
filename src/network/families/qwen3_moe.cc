// Qwen3 mixtures: Qwen3's attention, experts without a shared one, no drafting head.

#include "network/families.h"
#include "network/hybrid_decoder.h"

namespace drafthorse {

Result<Network> read_qwen3_moe(std::shared_ptr<const Checkpoint> checkpoint, const std::string& type,
                               const ReadOptions& options) {
  const HybridRules rules{.family = "qwen3_moe",
                          .text_type = "qwen3_moe",
                          .hybrid = false,
                          .gated = false,
                          .partial_rotary = 1,
                          .normalised_top_k = checkpoint->kind() == Checkpoint::Kind::gguf};
  const Result<HybridConfig> config = checkpoint->kind() == Checkpoint::Kind::gguf
                                          ? read_hybrid_gguf_config(*checkpoint, type, rules)
                                          : read_hybrid_config(*checkpoint, rules);
  if (!config) return config.error();
  return read_hybrid_decoder(std::move(checkpoint), *config, options);
}

}  // namespace drafthorse
