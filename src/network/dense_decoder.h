#pragma once
// The skeleton that Llama, Mistral, SmolLM2, Qwen2 and Qwen3 share: pre-norm blocks of grouped-query attention and a
// gated MLP. A family fills in the settings; this file finds the tensors, checks their shapes and makes the Network.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "network/network.h"
#include "network/rope.h"

namespace drafthorse {

// Whether a linear layer has a bias.
enum class Bias { none, required, if_present };

struct DenseConfig {
  std::string family;
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  int vocab = 0;  // 0: as many as the embedding has rows
  int context_length = 0;
  double eps = 1e-6;
  double rope_base = 10000;
  int rope_dims = 0;
  RopeScaling rope_scaling;
  bool rope_interleaved = false;
  std::vector<int> windows;  // [layers]; empty: no layer has a window
  Bias qkv_bias = Bias::none, output_bias = Bias::none, mlp_bias = Bias::none;
  bool qk_norms = false;
  bool head_required = false;  // the checkpoint says that its head is not tied
};

// Names of one layout; the names of a block's tensors follow block_prefix with {} as the layer, and every linear and
// norm name is followed by ".weight" or ".bias".
struct DenseNames {
  std::string_view embedding, final_norm, head, block_prefix;
  std::string_view before_mixer, q, k, v, o, q_norm, k_norm, before_ffn, gate, up, down;
  std::string_view rope_divisors;   // empty: the layout has none
  std::string_view ignored_suffix;  // tensors that carry nothing of the model's own; empty: none
};
extern const DenseNames kHuggingFaceNames;
extern const DenseNames kGgufNames;

// Errors: corrupt (sizes that contradict each other; a tensor is missing or has another shape), unsupported (a tensor
// that the architecture does not use, a tensor whose format has no matrix product).
Result<Network> read_dense_decoder(std::shared_ptr<const Checkpoint> checkpoint, const DenseConfig& config);

}  // namespace drafthorse
