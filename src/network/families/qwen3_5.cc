// Qwen3.5, 3.6 and 3.8, dense and mixtures: gated DeltaNet and gated attention, with a drafting head.

#include "network/families.h"
#include "network/hybrid_decoder.h"

namespace drafthorse {
namespace {

Result<HybridConfig> read_config(const Checkpoint& checkpoint, const std::string& type) {
  const bool mixture = type.find("moe") != std::string::npos;
  const HybridRules rules{.family = mixture ? "qwen3_5_moe" : "qwen3_5"};
  if (checkpoint.kind() == Checkpoint::Kind::gguf) return read_hybrid_gguf_config(checkpoint, type, rules);
  return read_hybrid_config(checkpoint, rules);
}

}  // namespace

Result<Network> read_qwen3_5(std::shared_ptr<const Checkpoint> checkpoint, const std::string& type,
                             const ReadOptions& options) {
  const Result<HybridConfig> config = read_config(*checkpoint, type);
  if (!config) return config.error();
  return read_hybrid_decoder(std::move(checkpoint), *config, options);
}

}  // namespace drafthorse
