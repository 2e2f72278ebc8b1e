#pragma once
// Small networks with random weights and every feature that a Network can say, made in memory.

#include <cmath>
#include <deque>
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
};

// A Network and the bytes that its tensors view.
class RandomNetwork {
 public:
  explicit RandomNetwork(const RandomNetworkOptions& o) : options_(o) {
    network.family = "random";
    network.hidden = o.hidden, network.vocab = o.vocab, network.context_length = 4096;
    network.embedding = floats("embedding", {o.vocab, o.hidden}, 1);
    network.logit_softcap = o.logit_softcap;
    for (int b = 0; b < o.blocks; ++b) network.blocks.push_back(block("blocks." + std::to_string(b) + "."));
    network.final_norm = norm("final_norm", o.hidden);
    network.head = linear("head", o.vocab, o.hidden, false);
  }
  RandomNetwork(const RandomNetwork&) = delete;

  Network network;

 private:
  Block block(const std::string& at) {
    const RandomNetworkOptions& o = options_;
    Attention a;
    a.q = linear(at + "q", o.heads * o.head_dim, o.hidden, o.bias);
    a.k = linear(at + "k", o.kv_heads * o.head_dim, o.hidden, o.bias);
    a.v = linear(at + "v", o.kv_heads * o.head_dim, o.hidden, o.bias);
    a.o = linear(at + "o", o.hidden, o.heads * o.head_dim, o.bias);
    a.heads = o.heads, a.kv_heads = o.kv_heads, a.head_dim = o.head_dim;
    if (o.head_norms) a.q_norm = norm(at + "q_norm", o.head_dim), a.k_norm = norm(at + "k_norm", o.head_dim);
    a.rope.dims = o.head_dim;
    a.rope.interleaved = o.interleaved;
    for (int i = 0; i < o.head_dim / 2; ++i) {
      a.rope.inv_freq.push_back(std::pow(1e4f, -2.0f * float(i) / float(o.head_dim)));
    }
    a.scale = 1 / std::sqrt(float(o.head_dim));
    a.window = o.window, a.softcap = o.softcap;
    Mlp m;
    m.gate = linear(at + "gate", o.inner, o.hidden, o.bias);
    m.up = linear(at + "up", o.inner, o.hidden, o.bias);
    m.down = linear(at + "down", o.hidden, o.inner, o.bias);
    m.activation = o.gelu ? Activation::gelu_tanh : Activation::silu;
    Block block{norm(at + "before_mixer", o.hidden), a, {}, norm(at + "before_ffn", o.hidden), m, {}};
    if (o.after_norms) {
      block.after_mixer = norm(at + "after_mixer", o.hidden), block.after_ffn = norm(at + "after_ffn", o.hidden);
    }
    return block;
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

  TensorView floats(const std::string& name, std::vector<int64_t> shape, float size, Format format = Format::f32) {
    OwnedTensor tensor;
    tensor.shape_and_format.format = format;
    tensor.shape_and_format.shape = std::move(shape);
    std::vector<float> values(size_t(tensor.shape_and_format.elements()));
    Random random(options_.seed, name);
    for (float& value : values) value = size * random.normal();
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
