#pragma once
// The settings of Qwen's hybrid models and mixtures (Qwen3.5 and its kin, Qwen3-Next, Qwen3-MoE), from config.json or
// GGUF metadata.

#include <optional>
#include <string>
#include <vector>

#include "network/dense_decoder.h"

namespace drafthorse {

// The gated delta rule's sizes (DeltaNet).
struct DeltaSizes {
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, kernel = 0;
  Activation gate = Activation::silu;
  int64_t channels() const { return 2 * int64_t{key_heads} * key_dim + int64_t{value_heads} * value_dim; }
};

// The mixture's sizes (Moe). experts 0: no block has one; shared 0: no shared expert.
struct MoeSizes {
  int experts = 0, top_k = 0, intermediate = 0, shared = 0;
  bool normalised = true;
};

// What a checkpoint says about its drafting head.
struct HeadContract {
  std::optional<Hidden> hidden;         // which of the trunk's vectors it is joined with
  std::optional<bool> embedding_first;  // order of the joined input
};

struct HybridConfig {
  DenseConfig dense;          // sizes, rope, eps; intermediate 0 where the file gives none
  std::vector<bool> linear;   // [layers]: the mixer is a DeltaNet
  std::vector<bool> mixture;  // [layers]: the ffn is a Moe
  DeltaSizes delta;
  MoeSizes moe;
  bool gated_attention = false;
  bool grouped_heads = false;  // value heads that share a key head lie together, whatever the container's habit
  bool hybrid = false;         // the family has linear attention; its files as first published store norms minus one
  int heads_in_file = 0;       // GGUF: drafting blocks after the trunk's; config.json: what it declares
  HeadContract head;
  std::string mtp_file;  // config.json's path of a side file with the head, relative to it; empty: none given
};

// What differs between the families that share these settings.
struct HybridRules {
  std::string family;
  std::string_view text_type = "qwen3_5";  // how text_config's model_type begins
  bool hybrid = true;                      // some layers are linear attention; else all are attention
  bool gated = true;                       // the attention has an output gate unless the file says otherwise
  double partial_rotary = 0.25;            // when the file gives none
  bool normalised_top_k = true;            // when the file does not say
};

// Errors of both: corrupt (values that contradict each other or cannot be), unsupported (values and keys that are not
// understood), each naming the file and the key.
Result<HybridConfig> read_hybrid_config(const Checkpoint& checkpoint, const HybridRules& rules);
Result<HybridConfig> read_hybrid_gguf_config(const Checkpoint& checkpoint, const std::string& architecture,
                                             const HybridRules& rules);

// That every size is positive and fits the others, and that products of them stay far from overflow.
Status check_hybrid_config(const Checkpoint& checkpoint, const HybridConfig& config);

}  // namespace drafthorse
