#pragma once
// Small networks with random weights and every feature that a Network can say, made in memory.

#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "network/network.h"
#include "support/random_weights.h"

namespace drafthorse::test {

struct RandomNetworkOptions {
  Format format = Format::f32;   // of the matrices
  int bits = 0, group_size = 0;  // MLX formats
  int blocks = 2, hidden = 256, heads = 4, kv_heads = 2, head_dim = 64, inner = 512, vocab = 300;
  bool bias = false, head_norms = false, interleaved = false, after_norms = false, gelu = false;
  int window = 0;
  float softcap = 0, logit_softcap = 0;
  uint64_t seed = 1;

  int full_attention_interval = 0;  // > 0: block b is attention where (b + 1) % interval == 0, else a DeltaNet
  bool gated = false;               // attention
  int rope_dims = 0;                // 0: head_dim
  int key_heads = 2, value_heads = 4, key_dim = 32, value_dim = 32, kernel = 4;
  bool tiled_heads = false, sigmoid_gate = false;
  int experts = 0, top_k = 2, expert_inner = 64;  // experts > 0: a mixture in every block
  bool shared_expert = true, shared_gate = true, normalised = true;
  bool mtp = false;  // with a drafting head of one block
};

// The structure of Qwen3.5: gated attention in every other block, with partial rope; DeltaNets in between; a drafting head.
inline RandomNetworkOptions hybrid_options() {
  RandomNetworkOptions o;
  o.blocks = 4, o.full_attention_interval = 2, o.hidden = 128, o.inner = 192, o.head_norms = o.gated = o.mtp = true;
  o.rope_dims = 16;
  return o;
}
inline RandomNetworkOptions hybrid_moe_options() {
  RandomNetworkOptions o = hybrid_options();
  o.experts = 8;
  return o;
}

// A Network and the bytes that its tensors view.
class RandomNetwork {
 public:
  explicit RandomNetwork(const RandomNetworkOptions& o) : options_(o) {
    network.family = "random";
    network.hidden = o.hidden, network.vocab = o.vocab, network.context_length = 4096;
    network.embedding = floats("embedding", {o.vocab, o.hidden}, 1);
    network.logit_softcap = o.logit_softcap;
    for (int b = 0; b < o.blocks; ++b) {
      const bool delta = o.full_attention_interval > 0 && (b + 1) % o.full_attention_interval != 0;
      network.blocks.push_back(block("blocks." + std::to_string(b) + ".", delta));
    }
    network.final_norm = norm("final_norm", o.hidden);
    network.head = linear("head", o.vocab, o.hidden, false);
    if (o.mtp) network.mtp = std::make_shared<Network>(mtp());
  }
  RandomNetwork(const RandomNetwork&) = delete;

  Network network;

 private:
  Block block(const std::string& at, bool delta) {
    const RandomNetworkOptions& o = options_;
    Block block{norm(at + "before_mixer", o.hidden), {}, {}, norm(at + "before_ffn", o.hidden), {}, {}};
    if (delta) {
      block.mixer = delta_net(at);
    } else {
      block.mixer = attention(at);
    }
    if (o.experts > 0) {
      block.ffn = moe(at);
    } else {
      block.ffn = mlp(at, o.inner);
    }
    if (o.after_norms) {
      block.after_mixer = norm(at + "after_mixer", o.hidden), block.after_ffn = norm(at + "after_ffn", o.hidden);
    }
    return block;
  }

  Attention attention(const std::string& at) {
    const RandomNetworkOptions& o = options_;
    Attention a;
    a.gated = o.gated;
    a.q = linear(at + "q", (o.gated ? 2 : 1) * o.heads * o.head_dim, o.hidden, o.bias);
    a.k = linear(at + "k", o.kv_heads * o.head_dim, o.hidden, o.bias);
    a.v = linear(at + "v", o.kv_heads * o.head_dim, o.hidden, o.bias);
    a.o = linear(at + "o", o.hidden, o.heads * o.head_dim, o.bias);
    a.heads = o.heads, a.kv_heads = o.kv_heads, a.head_dim = o.head_dim;
    if (o.head_norms) a.q_norm = norm(at + "q_norm", o.head_dim), a.k_norm = norm(at + "k_norm", o.head_dim);
    a.rope.dims = o.rope_dims > 0 ? o.rope_dims : o.head_dim;
    a.rope.interleaved = o.interleaved;
    for (int i = 0; i < a.rope.dims / 2; ++i) {
      a.rope.inv_freq.push_back(std::pow(1e4f, -2.0f * float(i) / float(a.rope.dims)));
    }
    a.scale = 1 / std::sqrt(float(o.head_dim));
    a.window = o.window, a.softcap = o.softcap;
    return a;
  }

  DeltaNet delta_net(const std::string& at) {
    const RandomNetworkOptions& o = options_;
    DeltaNet d;
    d.key_heads = o.key_heads, d.value_heads = o.value_heads, d.key_dim = o.key_dim, d.value_dim = o.value_dim;
    d.kernel = o.kernel, d.tiled_heads = o.tiled_heads;
    d.gate = o.sigmoid_gate ? Activation::sigmoid : Activation::silu;
    const int values = o.value_heads * o.value_dim, channels = 2 * o.key_heads * o.key_dim + values;
    d.qkv = linear(at + "qkv", channels, o.hidden, o.bias);
    d.z = linear(at + "z", values, o.hidden, o.bias);
    d.b = linear(at + "b", o.value_heads, o.hidden, o.bias);
    d.a = linear(at + "a", o.value_heads, o.hidden, o.bias);
    d.out = linear(at + "out", o.hidden, values, o.bias);
    d.conv = floats(at + "conv", {channels, o.kernel}, 0.6f);
    d.decay = floats(at + "decay", {o.value_heads}, 0.7f);
    d.dt_bias = floats(at + "dt_bias", {o.value_heads}, 1.0f, Format::f32, -1.5f);  // g mostly in 0.5 .. 0.99
    d.norm.weight = floats(at + "norm", {o.value_dim}, 0.2f, Format::f32, 1.0f);
    return d;
  }

  Mlp mlp(const std::string& at, int inner) {
    const RandomNetworkOptions& o = options_;
    Mlp m;
    m.gate = linear(at + "gate", inner, o.hidden, o.bias);
    m.up = linear(at + "up", inner, o.hidden, o.bias);
    m.down = linear(at + "down", o.hidden, inner, o.bias);
    m.activation = o.gelu ? Activation::gelu_tanh : Activation::silu;
    return m;
  }

  Moe moe(const std::string& at) {
    const RandomNetworkOptions& o = options_;
    Moe m;
    m.top_k = o.top_k, m.normalised = o.normalised;
    m.router = linear(at + "router", o.experts, o.hidden, false);
    for (int e = 0; e < o.experts; ++e) {
      m.experts.push_back(mlp(at + "experts." + std::to_string(e) + ".", o.expert_inner));
    }
    if (!o.shared_expert) return m;
    m.shared = mlp(at + "shared.", o.expert_inner);
    if (o.shared_gate) m.shared_gate = linear(at + "shared_gate", 1, o.hidden, false);
    return m;
  }

  Network mtp() {
    const RandomNetworkOptions& o = options_;
    Network head = network;
    head.blocks = {block("mtp.", false)};
    head.final_norm = norm("mtp.final_norm", o.hidden);
    head.joined_input = JoinedInput{norm("mtp.embedding_norm", o.hidden), norm("mtp.hidden_norm", o.hidden),
                                    linear("mtp.fc", o.hidden, 2 * o.hidden, false)};
    return head;
  }

  Norm norm(const std::string& name, int n) {
    Norm norm;
    norm.weight = floats(name, {n}, 0.2f);
    norm.weight_offset = 1;
    return norm;
  }

  Linear linear(const std::string& name, int64_t out, int64_t in, bool bias) {
    const RandomNetworkOptions& o = options_;
    const double size = 1.2 / std::sqrt(double(in));
    Random random(o.seed, name);
    Linear linear;
    if (o.format == Format::f32 || o.format == Format::f16 || o.format == Format::bf16) {
      linear.weight = floats(name, {out, in}, float(size), o.format);
    } else if (o.group_size > 0) {
      linear.weight = keep(name, random_mlx(o.format, o.bits, o.group_size, Format::bf16, {out, in}, random, size));
    } else {
      linear.weight = keep(name, random_blocks(o.format, {out, in}, random, size));
    }
    if (bias) linear.bias = floats(name + ".bias", {out}, 0.5f);
    return linear;
  }

  TensorView floats(const std::string& name, std::vector<int64_t> shape, float size, Format format = Format::f32,
                    float mean = 0) {
    OwnedTensor tensor;
    tensor.shape_and_format.format = format;
    tensor.shape_and_format.shape = std::move(shape);
    std::vector<float> values(size_t(tensor.shape_and_format.elements()));
    Random random(options_.seed, name);
    for (float& value : values) value = mean + size * random.normal();
    tensor.data = encode_plain(format, values);
    return keep(name, std::move(tensor));
  }

  TensorView keep(const std::string& name, OwnedTensor tensor) {
    TensorView view = storage_.emplace_back(std::move(tensor)).view();
    view.name = name;
    return view;
  }

  RandomNetworkOptions options_;
  std::deque<OwnedTensor> storage_;
};

}  // namespace drafthorse::test
