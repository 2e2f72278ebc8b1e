#include "network/dense_decoder.h"

#include <cmath>

#include <fmt/format.h>

#include "network/tensor_source.h"

namespace drafthorse {

const DenseNames kHuggingFaceNames = {.embedding = "model.embed_tokens",
                                      .final_norm = "model.norm",
                                      .head = "lm_head",
                                      .block_prefix = "model.layers.{}.",
                                      .before_mixer = "input_layernorm",
                                      .q = "self_attn.q_proj",
                                      .k = "self_attn.k_proj",
                                      .v = "self_attn.v_proj",
                                      .o = "self_attn.o_proj",
                                      .q_norm = "self_attn.q_norm",
                                      .k_norm = "self_attn.k_norm",
                                      .before_ffn = "post_attention_layernorm",
                                      .gate = "mlp.gate_proj",
                                      .up = "mlp.up_proj",
                                      .down = "mlp.down_proj",
                                      .rope_divisors = "",
                                      .ignored_suffix = "rotary_emb.inv_freq"};

const DenseNames kGgufNames = {.embedding = "token_embd",
                               .final_norm = "output_norm",
                               .head = "output",
                               .block_prefix = "blk.{}.",
                               .before_mixer = "attn_norm",
                               .q = "attn_q",
                               .k = "attn_k",
                               .v = "attn_v",
                               .o = "attn_output",
                               .q_norm = "attn_q_norm",
                               .k_norm = "attn_k_norm",
                               .before_ffn = "ffn_norm",
                               .gate = "ffn_gate",
                               .up = "ffn_up",
                               .down = "ffn_down",
                               .rope_divisors = "rope_freqs.weight",
                               .ignored_suffix = ""};

namespace {

Error config_error(const Checkpoint& checkpoint, const std::string& text) {
  return {ErrorKind::corrupt, fmt::format("{}: {}", checkpoint.path().string(), text), {}};
}

// The sizes that every later computation relies on.
Status check_sizes(const Checkpoint& checkpoint, const DenseConfig& c) {
  if (c.hidden < 1 || c.layers < 1 || c.heads < 1 || c.kv_heads < 1 || c.head_dim < 1 || c.intermediate < 1) {
    return config_error(checkpoint,
                        fmt::format("expected positive sizes, found hidden {}, layers {}, heads {}, kv heads "
                                    "{}, head_dim {}, intermediate {}",
                                    c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.intermediate));
  }
  if (c.heads % c.kv_heads != 0) {
    return config_error(checkpoint, fmt::format("{} heads are no multiple of {} kv heads", c.heads, c.kv_heads));
  }
  if (c.rope_dims < 0 || c.rope_dims > c.head_dim || c.rope_dims % 2 != 0) {
    return config_error(
        checkpoint, fmt::format("expected an even number of rotary dimensions up to head_dim {}, found {}", c.head_dim,
                                c.rope_dims));
  }
  if (c.context_length < 1) return config_error(checkpoint, "expected a positive context length");
  if (!(c.eps > 0 && c.eps < 1)) return config_error(checkpoint, fmt::format("the norms' eps is {}", c.eps));
  if (!(c.rope_base > 1)) return config_error(checkpoint, fmt::format("the rotary base is {}", c.rope_base));
  return {};
}

// Reads one checkpoint's tensors in one layout.
class Builder {
 public:
  Builder(const Checkpoint& checkpoint, const DenseConfig& config)
      : checkpoint_(checkpoint),
        config_(config),
        names_(checkpoint.kind() == Checkpoint::Kind::gguf ? kGgufNames : kHuggingFaceNames),
        source_(checkpoint) {}

  Result<Network> build() {
    Network network;
    const TensorView* embedding = checkpoint_.find(weight(names_.embedding));
    network.vocab = config_.vocab ? config_.vocab : embedding ? static_cast<int>(embedding->rows()) : 0;
    network.hidden = config_.hidden;
    network.embedding = source_.matrix(weight(names_.embedding), network.vocab, config_.hidden);
    const Result<Rope> rope = read_rope();
    if (!rope) return rope.error();
    for (int layer = 0; layer < config_.layers && source_.ok(); ++layer) {
      network.blocks.push_back(read_block(layer, *rope));
    }
    network.final_norm = norm(std::string(names_.final_norm), config_.hidden);
    read_head(network);
    if (!source_.ok()) return source_.status().error();
    const auto ignored = [&](std::string_view name) {
      return !names_.ignored_suffix.empty() && name.ends_with(names_.ignored_suffix);
    };
    if (Status status = source_.check_all_taken(ignored); !status) return status.error();
    return network;
  }

 private:
  static std::string weight(std::string_view name) { return std::string(name) + ".weight"; }

  Linear linear(const std::string& name, int64_t out, int64_t in, Bias bias) {
    Linear result;
    result.weight = source_.matrix(weight(name), out, in);
    const std::string bias_name = name + ".bias";
    if (bias == Bias::required || (bias == Bias::if_present && source_.has(bias_name))) {
      result.bias = source_.vector(bias_name, out);
    }
    return result;
  }

  Norm norm(const std::string& name, int64_t size) {
    return {source_.vector(weight(name), size), static_cast<float>(config_.eps), 0.0f};
  }

  Result<Rope> read_rope() {
    Rope rope = make_rope(config_.rope_dims, config_.rope_base, config_.rope_scaling, config_.rope_interleaved);
    const std::string divisors_name(names_.rope_divisors);
    if (divisors_name.empty() || !source_.has(divisors_name)) return rope;
    const TensorView tensor = source_.vector(divisors_name, config_.rope_dims / 2);
    if (!source_.ok()) return source_.status().error();
    std::vector<float> divisors(rope.inv_freq.size());
    if (Status status = dequantise(tensor, 0, tensor.rows(), divisors); !status) return status.error();
    for (const float divisor : divisors) {
      if (!(divisor > 0) || !std::isfinite(divisor)) {
        return config_error(checkpoint_,
                            fmt::format("tensor \"{}\": expected positive divisors, found {}", divisors_name, divisor));
      }
    }
    divide_frequencies(rope, divisors);
    return rope;
  }

  Attention read_attention(const std::string& prefix, int layer, const Rope& rope) {
    const auto named = [&](std::string_view name) { return prefix + std::string(name); };
    const int64_t q_size = int64_t{config_.heads} * config_.head_dim,
                  kv_size = int64_t{config_.kv_heads} * config_.head_dim;
    Attention attention;
    attention.q = linear(named(names_.q), q_size, config_.hidden, config_.qkv_bias);
    attention.k = linear(named(names_.k), kv_size, config_.hidden, config_.qkv_bias);
    attention.v = linear(named(names_.v), kv_size, config_.hidden, config_.qkv_bias);
    attention.o = linear(named(names_.o), config_.hidden, q_size, config_.output_bias);
    if (config_.qk_norms) {
      attention.q_norm = norm(named(names_.q_norm), config_.head_dim);
      attention.k_norm = norm(named(names_.k_norm), config_.head_dim);
    }
    attention.heads = config_.heads;
    attention.kv_heads = config_.kv_heads;
    attention.head_dim = config_.head_dim;
    attention.rope = rope;
    attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim)));
    attention.window = config_.windows.empty() ? 0 : config_.windows[static_cast<size_t>(layer)];
    return attention;
  }

  Block read_block(int layer, const Rope& rope) {
    const std::string prefix = fmt::format(fmt::runtime(names_.block_prefix), layer);
    const auto named = [&](std::string_view name) { return prefix + std::string(name); };
    Block block;
    block.before_mixer = norm(named(names_.before_mixer), config_.hidden);
    block.mixer = read_attention(prefix, layer, rope);
    block.before_ffn = norm(named(names_.before_ffn), config_.hidden);
    Mlp mlp;
    mlp.gate = linear(named(names_.gate), config_.intermediate, config_.hidden, config_.mlp_bias);
    mlp.up = linear(named(names_.up), config_.intermediate, config_.hidden, config_.mlp_bias);
    mlp.down = linear(named(names_.down), config_.hidden, config_.intermediate, config_.mlp_bias);
    block.ffn = std::move(mlp);
    return block;
  }

  // A head of its own if the checkpoint has one, else the embedding.
  void read_head(Network& network) {
    network.tied_head = !config_.head_required && !source_.has(weight(names_.head));
    if (network.tied_head) {
      network.head.weight = network.embedding;
    } else {
      network.head = linear(std::string(names_.head), network.vocab, config_.hidden, Bias::none);
    }
  }

  const Checkpoint& checkpoint_;
  const DenseConfig& config_;
  const DenseNames& names_;
  TensorSource source_;
};

}  // namespace

Result<Network> read_dense_decoder(std::shared_ptr<const Checkpoint> checkpoint, const DenseConfig& config) {
  if (Status status = check_sizes(*checkpoint, config); !status) return status.error();
  Result<Network> network = Builder(*checkpoint, config).build();
  if (!network) return network;
  network->family = config.family;
  network->context_length = config.context_length;
  network->checkpoint = std::move(checkpoint);
  return network;
}

}  // namespace drafthorse
