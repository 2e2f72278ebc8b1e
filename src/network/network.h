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
  // The query projection also gives a gate: q has 2 * heads * head_dim outputs, for each head its query, then its gate,
  // and what is attended is multiplied by sigmoid(gate) before o.
  bool gated = false;
  int heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<Norm> q_norm, k_norm;  // per head, before rope
  Rope rope;
  float scale = 0;    // multiplies q.k; usually 1/sqrt(head_dim)
  int window = 0;     // sliding window: key j is seen by query i iff i - j < window; 0: all
  float softcap = 0;  // 0: none; else scores = cap * tanh(scores / cap)
};

enum class Activation { silu, gelu_tanh, sigmoid };

// Gated delta rule (Qwen3.5's linear attention), from normed input x:
//   u = qkv x; a causal depthwise convolution over the last `kernel` rows of u, then silu, gives q, k (key_heads heads of
//   key_dim) and v (value_heads heads of value_dim), in this order. Per head: q^ = q / sqrt(sum q^2 + 1e-6) / sqrt(key_dim),
//   k^ = k / sqrt(sum k^2 + 1e-6). Per value head: beta = sigmoid(b x), g = exp(decay * softplus(a x + dt_bias)).
//   State S [value_dim, key_dim], fp32: S = g S; delta = beta (v - S k^); S = S + delta k^T; y = S q^.
//   o = out(norm(y) * gate(z x)), the norm over each head's value_dim.
struct DeltaNet {
  Linear qkv, z, b, a, out;
  TensorView conv;   // [2 * key_heads * key_dim + value_heads * value_dim, kernel]; last tap: this row
  TensorView decay;  // [value_heads]; -exp(A_log), or A_log itself where decay_is_log
  bool decay_is_log = true;
  TensorView dt_bias;                  // [value_heads]
  Norm norm;                           // over value_dim
  Activation gate = Activation::silu;  // silu or sigmoid
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, kernel = 0;
  // Which key head value head h reads: h % key_heads (GGUF's order), or h / (value_heads / key_heads).
  bool tiled_heads = false;
};

// down(act(gate x) * (up x))
struct Mlp {
  Linear gate, up, down;
  Activation activation = Activation::silu;
};

// Mixture of experts: router logits l = router x; the top_k largest (the lower index first where equal), weighted by the
// softmax over those kept (normalised) or over all; sum over them of weight * expert(x), largest first, then
// sigmoid(shared_gate x) * shared(x), or shared(x) without a gate.
struct Moe {
  Linear router;             // [experts, hidden]
  std::vector<Mlp> experts;  // all of the same shape and formats
  int top_k = 0;
  bool normalised = true;
  std::optional<Mlp> shared;
  std::optional<Linear> shared_gate;  // [1, hidden]
};

struct Block {
  Norm before_mixer;
  std::variant<Attention, DeltaNet> mixer;
  std::optional<Norm> after_mixer;
  Norm before_ffn;
  std::variant<Mlp, Moe> ffn;
  std::optional<Norm> after_ffn;
};

// The input of a drafting head: x = fc([embedding_norm(e), hidden_norm(h)]), e the token's embedding, h the hidden vector
// of the position before it. fc: [hidden, 2 * hidden], its inputs in the other order where !embedding_first.
struct JoinedInput {
  Norm embedding_norm, hidden_norm;
  Linear fc;
  bool embedding_first = true;
};

// A network's hidden vectors: the output of the last block, before or after the final norm.
enum class Hidden { none, before_norm, after_norm };

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

  std::optional<JoinedInput> joined_input;  // of a drafting head; a model has none
  // The multi-token prediction head that came with the checkpoint: a network of the same embedding and head whose row of
  // token t+1, joined with this network's hidden vector of t, predicts t+2.
  std::shared_ptr<const Network> mtp;
  Hidden mtp_hidden = Hidden::after_norm;  // which vectors it is joined with
  bool mtp_hidden_known = false;           // the checkpoint says so; else it is worth probing
};

struct ReadOptions {
  std::string mtp;  // file or folder with the drafting head; empty: in the checkpoint or beside it, where there is one
};

// Translates a checkpoint. Errors: unsupported (family or config key by name), corrupt (tensor, expected, found).
Result<Network> read_network(std::shared_ptr<const Checkpoint> checkpoint, const ReadOptions& options = {});

// Bytes of weights that one decoded token reads (embedding: one row; a tied head once; a mixture: top_k experts).
uint64_t bytes_per_token(const Network& network);

}  // namespace drafthorse
