#include "network/hybrid_blocks.h"

#include <cmath>

namespace drafthorse {
namespace {

std::string weight(const std::string& name) { return name + ".weight"; }
std::string join(const std::string& prefix, std::string_view name) { return prefix + std::string(name); }

}  // namespace

Linear BlockReader::linear(const std::string& name, int64_t out, int64_t in, Bias bias) {
  Linear result;
  result.weight = source_.matrix(weight(name), out, in);
  const std::string bias_name = name + ".bias";
  if (bias == Bias::required || (bias == Bias::if_present && source_.has(bias_name))) {
    result.bias = source_.vector(bias_name, out);
  }
  return result;
}

Norm BlockReader::norm(const std::string& name, int64_t size) {
  return {source_.vector(weight(name), size), static_cast<float>(config_.dense.eps), norm_offset_};
}

Attention BlockReader::attention(const std::string& prefix, const Rope& rope, int window) {
  const DenseConfig& c = config_.dense;
  const int64_t q_size = int64_t{c.heads} * c.head_dim, kv_size = int64_t{c.kv_heads} * c.head_dim;
  Attention attention;
  attention.gated = config_.gated_attention;
  attention.q = linear(join(prefix, names_.q), attention.gated ? 2 * q_size : q_size, c.hidden, c.qkv_bias);
  attention.k = linear(join(prefix, names_.k), kv_size, c.hidden, c.qkv_bias);
  attention.v = linear(join(prefix, names_.v), kv_size, c.hidden, c.qkv_bias);
  attention.o = linear(join(prefix, names_.o), c.hidden, q_size, c.output_bias);
  attention.q_norm = norm(join(prefix, names_.q_norm), c.head_dim);
  attention.k_norm = norm(join(prefix, names_.k_norm), c.head_dim);
  attention.heads = c.heads;
  attention.kv_heads = c.kv_heads;
  attention.head_dim = c.head_dim;
  attention.rope = rope;
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.head_dim)));
  attention.window = window;
  return attention;
}

// Hugging Face keeps it as [channels, 1, kernel], MLX as [channels, kernel, 1] (its norms are converted too), GGUF as
// [channels, kernel]: the same values in the same order.
TensorView BlockReader::convolution(const std::string& name) {
  const int64_t channels = config_.delta.channels(), kernel = config_.delta.kernel;
  const std::vector<int64_t> flat = {channels, kernel}, raw = {channels, 1, kernel}, converted = {channels, kernel, 1};
  std::vector<int64_t> shape = is_gguf() ? flat : norm_offset_ != 0 ? raw : converted;
  const TensorView* tensor = source_.find(name);
  for (const auto& other : {flat, raw, converted}) {
    if (tensor && tensor->shape == other) shape = other;
  }
  TensorView conv = source_.plain(name, shape);
  conv.shape = flat;
  return conv;
}

DeltaNet BlockReader::delta_net(const std::string& prefix) {
  const DeltaSizes& sizes = config_.delta;
  const int64_t hidden = config_.dense.hidden, value_size = int64_t{sizes.value_heads} * sizes.value_dim;
  DeltaNet delta;
  delta.qkv = linear(join(prefix, names_.qkv), sizes.channels(), hidden);
  delta.z = linear(join(prefix, names_.z), value_size, hidden);
  delta.b = linear(join(prefix, names_.b), sizes.value_heads, hidden);
  delta.a = linear(join(prefix, names_.a), sizes.value_heads, hidden);
  delta.conv = convolution(join(prefix, names_.conv));
  delta.decay = source_.vector(join(prefix, names_.decay), sizes.value_heads);
  delta.decay_is_log = names_.decay_is_log;
  delta.dt_bias = source_.vector(join(prefix, names_.dt_bias), sizes.value_heads);
  delta.norm = norm(join(prefix, names_.delta_norm), sizes.value_dim);
  delta.norm.weight_offset = 0;  // stored as it is everywhere
  delta.out = linear(join(prefix, names_.delta_out), hidden, value_size);
  delta.gate = sizes.gate;
  delta.key_heads = sizes.key_heads;
  delta.value_heads = sizes.value_heads;
  delta.key_dim = sizes.key_dim;
  delta.value_dim = sizes.value_dim;
  delta.kernel = sizes.kernel;
  delta.tiled_heads = names_.tiled_heads && !config_.grouped_heads;
  return delta;
}

Mlp BlockReader::mlp(const std::string& prefix, std::string_view gate, std::string_view up, std::string_view gate_up,
                     std::string_view down, int64_t size) {
  const int64_t hidden = config_.dense.hidden;
  Mlp mlp;
  if (source_.has(weight(join(prefix, gate_up)))) {
    const TensorView both = source_.matrix(weight(join(prefix, gate_up)), 2 * size, hidden);
    mlp.gate.weight = source_.rows(both, 0, size);
    mlp.up.weight = source_.rows(both, size, size);
  } else {
    mlp.gate = linear(join(prefix, gate), size, hidden);
    mlp.up = linear(join(prefix, up), size, hidden);
  }
  mlp.down = linear(join(prefix, down), hidden, size);
  return mlp;
}

Moe BlockReader::moe(const std::string& prefix) {
  const MoeSizes& sizes = config_.moe;
  Moe moe;
  moe.router = linear(join(prefix, names_.router), sizes.experts, config_.dense.hidden);
  moe.experts = read_experts(source_, prefix, sizes, config_.dense.hidden);
  moe.top_k = sizes.top_k;
  moe.normalised = sizes.normalised;
  if (sizes.shared > 0) {
    moe.shared =
        mlp(prefix, names_.shared_gate, names_.shared_up, names_.shared_gate_up, names_.shared_down, sizes.shared);
    // GGUF keeps the one row as a vector.
    const std::string name = weight(join(prefix, names_.shared_router));
    const TensorView* gate = source_.find(name);
    moe.shared_gate.emplace();
    if (gate ? gate->shape.size() == 1 : is_gguf()) {
      moe.shared_gate->weight = source_.vector(name, config_.dense.hidden);
      moe.shared_gate->weight.shape = {1, config_.dense.hidden};
    } else {
      moe.shared_gate->weight = source_.matrix(name, 1, config_.dense.hidden);
    }
  }
  return moe;
}

Block BlockReader::read(const std::string& prefix, bool linear_mixer, bool mixture, const Rope& rope, int window) {
  Block block;
  block.before_mixer = norm(join(prefix, names_.before_mixer), config_.dense.hidden);
  if (linear_mixer) {
    block.mixer = delta_net(prefix);
  } else {
    block.mixer = attention(prefix, rope, window);
  }
  block.before_ffn = norm(join(prefix, names_.before_ffn), config_.dense.hidden);
  if (mixture) {
    block.ffn = moe(prefix);
  } else {
    block.ffn = mlp(prefix, names_.gate, names_.up, names_.gate_up, names_.down, config_.dense.intermediate);
  }
  return block;
}

}  // namespace drafthorse
