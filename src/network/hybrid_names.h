#pragma once
// What the tensors of Qwen's hybrid models and mixtures are called: Hugging Face and MLX folders, and GGUF.

#include <string>
#include <string_view>

#include "weights/checkpoint.h"

namespace drafthorse {

// Names of a block's parts after its prefix. Linears and norms without ".weight"; the others as they are.
struct BlockNames {
  std::string_view before_mixer, before_ffn;
  std::string_view q, k, v, o, q_norm, k_norm;
  std::string_view qkv, z, b, a, delta_norm, delta_out;  // DeltaNet's linears and norm
  std::string_view conv, decay, dt_bias;                 // whole names
  bool decay_is_log = true;                              // decay holds A_log, not -exp(A_log)
  bool tiled_heads = false;                              // value head h reads key head h % key_heads
  std::string_view gate, up, gate_up, down;              // Mlp; gate_up: both in one, gate first
  std::string_view router, shared_router;
  std::string_view shared_gate, shared_up, shared_gate_up, shared_down;
};
extern const BlockNames kHuggingFaceBlock;
extern const BlockNames kGgufBlock;           // with linear attention
extern const BlockNames kGgufAttentionBlock;  // of models that have none

// The whole names, as one checkpoint spells them, without ".weight".
struct ModelNames {
  const BlockNames* block = nullptr;
  std::string prefix;  // of all names of the trunk; empty in GGUF
  std::string embedding, final_norm, head;
  std::string layer(int64_t index) const;  // "model.layers.3."
};

// Finds the prefix that this checkpoint's trunk has: model.language_model., language_model.model., model. or none.
// `hybrid`: it has linear attention, which GGUF names differently.
ModelNames find_model_names(const Checkpoint& checkpoint, bool hybrid);

// The drafting head's names, without ".weight".
struct HeadNames {
  const BlockNames* block = nullptr;
  bool found = false;  // the checkpoint has tensors of a head
  std::string prefix;  // of all its names; empty where the whole file is a head and in GGUF
  std::string layer;   // prefix of its block
  std::string fc, embedding_norm, hidden_norm, final_norm;
};

// block_index: the block of GGUF's head, the first after the trunk's.
HeadNames find_head_names(const Checkpoint& checkpoint, int64_t block_index);

// Whether the tensor belongs to the parts for images and sound, which a text model leaves alone.
bool is_other_sense(std::string_view name);

}  // namespace drafthorse
