#pragma once
// A model as data. A family translates a checkpoint into a Network; backends execute Networks.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/result.h"
#include "weights/checkpoint.h"
#include "weights/tensor.h"

namespace drafthorse {

// y = W x + b. weight: [out, in]; bias: [out].
struct Linear {
  TensorView weight;
  std::optional<TensorView> bias;
  int64_t out_features() const { return weight.rows(); }
  int64_t in_features() const { return weight.columns(); }
};

// RMSNorm: y = x / sqrt(mean(x^2) + eps) * (weight + weight_offset). weight: [n]; absent means ones.
struct Norm {
  std::optional<TensorView> weight;
  float eps = 1e-6f;
  float weight_offset = 0.0f;
};

// Rotary position embedding of the first `dims` elements of a head: angle(i, position) = position * inv_freq[i].
// half split: pairs (i, i + dims/2); interleaved: pairs (2i, 2i+1). Both parts are multiplied by `scale` (yarn).
struct Rope {
  int dims = 0;                 // 0: no rope on this layer
  std::vector<float> inv_freq;  // [dims / 2]
  float scale = 1.0f;
  bool interleaved = false;
};

struct Attention {
  Linear q, k, v, o;
  int heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<Norm> q_norm, k_norm;  // per head, before rope
  Rope rope;
  float scale = 0;    // multiplies q.k; usually 1/sqrt(head_dim)
  int window = 0;     // sliding window: key j is seen by query i iff i - j < window; 0: all
  float softcap = 0;  // 0: none; else scores = cap * tanh(scores / cap)
};

enum class Activation { silu, gelu_tanh };
// down(act(gate x) * (up x))
struct Mlp {
  Linear gate, up, down;
  Activation activation = Activation::silu;
};

struct Block {
  Norm before_mixer;
  std::variant<Attention> mixer;  // DeltaNet joins with the hybrid families
  std::optional<Norm> after_mixer;
  Norm before_ffn;
  std::variant<Mlp> ffn;  // Moe joins with the mixture families
  std::optional<Norm> after_ffn;
};

struct Network {
  std::shared_ptr<const Checkpoint> checkpoint;  // keeps every TensorView alive
  std::string family;                            // "llama", "qwen2", "qwen3"
  std::string name;                              // general.name or folder name, for people
  int hidden = 0, vocab = 0;
  int context_length = 0;  // positions the model was made for
  TensorView embedding;    // [vocab, hidden]
  float embedding_scale = 1.0f;
  std::vector<Block> blocks;
  Norm final_norm;
  Linear head;  // [vocab, hidden]; the embedding itself when tied
  bool tied_head = false;
  float logit_softcap = 0;
};

// Translates a checkpoint. Errors: unsupported (family or config key by name), corrupt (tensor, expected, found).
Result<Network> read_network(std::shared_ptr<const Checkpoint> checkpoint);

// Bytes of weights that one decoded token reads (embedding: one row; a tied head counts once, whole).
uint64_t bytes_per_token(const Network& network);

}  // namespace drafthorse
