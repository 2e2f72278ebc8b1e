#include "backend/cpu/packed_network.h"

#include <fmt/format.h>

#include "backend/rope.h"

namespace drafthorse::cpu {
namespace {

uint64_t matrix_bytes(const Network& network) {
  uint64_t bytes = network.head.weight.bytes();
  for (const Block& block : network.blocks) {
    const Attention& a = std::get<Attention>(block.mixer);
    const Mlp& m = std::get<Mlp>(block.ffn);
    for (const Linear* linear : {&a.q, &a.k, &a.v, &a.o, &m.gate, &m.up, &m.down}) bytes += linear->weight.bytes();
  }
  return bytes;
}

// Collects the first error, so that a block is packed by a plain list of calls.
class Packer {
 public:
  Packer(const Network& network, ThreadPool& pool, const Progress& progress)
      : network_(network), pool_(pool), progress_(progress), total_(matrix_bytes(network)) {}

  PackedLayer layer(const Linear& linear, int64_t outputs, int64_t inputs) {
    PackedLayer packed;
    if (!status_.ok() || !expect(linear.weight, {outputs, inputs})) return packed;
    Result<PackedLinear> matrix = pack(linear.weight, pool_, network_.checkpoint.get());
    if (!matrix) {
      fail(matrix.error());
      return packed;
    }
    packed.linear = std::move(*matrix);
    if (linear.bias) packed.bias = vector(*linear.bias, outputs);
    bytes_ += packed.linear.bytes();
    done_ += linear.weight.bytes();
    if (progress_) progress_(done_, total_);
    return packed;
  }

  PackedNorm norm(const Norm& norm, int64_t n) {
    PackedNorm packed{norm.weight ? vector(*norm.weight, n) : std::vector<float>(n, 1.0f), norm.eps};
    if (norm.weight && norm.weight_offset != 0) {
      for (float& w : packed.weight) w += norm.weight_offset;
    }
    return packed;
  }
  std::optional<PackedNorm> norm(const std::optional<Norm>& n, int64_t size) {
    return n ? std::optional(norm(*n, size)) : std::nullopt;
  }

  PackedAttention attention(const Attention& a, std::vector<Rope>& ropes) {
    PackedAttention packed;
    const int64_t hidden = network_.hidden, queries = int64_t(a.heads) * a.head_dim;
    const int64_t keys = int64_t(a.kv_heads) * a.head_dim;
    if (a.kv_heads <= 0 || a.heads % a.kv_heads || a.rope.dims > a.head_dim || a.rope.dims % 2 ||
        int64_t(a.rope.inv_freq.size()) != a.rope.dims / 2) {
      fail({ErrorKind::unsupported,
            fmt::format("attention with {} heads, {} kv heads, head_dim {}, rope over {} elements", a.heads, a.kv_heads,
                        a.head_dim, a.rope.dims),
            ""});
      return packed;
    }
    packed.q = layer(a.q, queries, hidden);
    packed.k = layer(a.k, keys, hidden);
    packed.v = layer(a.v, keys, hidden);
    packed.o = layer(a.o, hidden, queries);
    packed.q_norm = norm(a.q_norm, a.head_dim);
    packed.k_norm = norm(a.k_norm, a.head_dim);
    packed.heads = a.heads, packed.kv_heads = a.kv_heads, packed.head_dim = a.head_dim;
    packed.scale = a.scale, packed.softcap = a.softcap, packed.window = a.window;
    while (packed.rope < int(ropes.size()) && !same_rope(ropes[packed.rope], a.rope)) ++packed.rope;
    if (packed.rope == int(ropes.size())) ropes.push_back(a.rope);
    return packed;
  }

  PackedMlp mlp(const Mlp& m) {
    PackedMlp packed;
    const int64_t hidden = network_.hidden, inner = m.gate.out_features();
    packed.gate = layer(m.gate, inner, hidden);
    packed.up = layer(m.up, inner, hidden);
    packed.down = layer(m.down, hidden, inner);
    packed.activation = m.activation;
    return packed;
  }

  void at(std::string place) { place_ = std::move(place); }
  const Status& status() const { return status_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void fail(const Error& error) {
    if (status_.ok()) status_ = error.with_context(place_);
  }

  bool expect(const TensorView& tensor, std::vector<int64_t> shape) {
    if (tensor.shape == shape) return true;
    fail({ErrorKind::corrupt,
          fmt::format("{}: expected shape [{}], found [{}]", tensor.name, fmt::join(shape, ", "),
                      fmt::join(tensor.shape, ", ")),
          ""});
    return false;
  }

  std::vector<float> vector(const TensorView& tensor, int64_t n) {
    std::vector<float> values(n);
    if (tensor.elements() != n) {
      expect(tensor, {n});
    } else if (Status status = dequantise(tensor, 0, tensor.rows(), values); !status) {
      fail(status.error());
    }
    return values;
  }

  const Network& network_;
  ThreadPool& pool_;
  const Progress& progress_;
  uint64_t total_, done_ = 0, bytes_ = 0;
  std::string place_;
  Status status_;
};

}  // namespace

Result<PackedNetwork> pack_network(const Network& network, ThreadPool& pool, const Progress& progress) {
  PackedNetwork packed;
  Packer packer(network, pool, progress);
  for (size_t i = 0; i < network.blocks.size(); ++i) {
    packer.at(fmt::format("block {}", i));
    const Block& block = network.blocks[i];
    PackedBlock& out = packed.blocks.emplace_back();
    out.before_mixer = packer.norm(block.before_mixer, network.hidden);
    out.attention = packer.attention(std::get<Attention>(block.mixer), packed.ropes);
    out.after_mixer = packer.norm(block.after_mixer, network.hidden);
    out.before_ffn = packer.norm(block.before_ffn, network.hidden);
    out.mlp = packer.mlp(std::get<Mlp>(block.ffn));
    out.after_ffn = packer.norm(block.after_ffn, network.hidden);
    if (!packer.status()) return packer.status().error();
  }
  packer.at("head");
  packed.final_norm = packer.norm(network.final_norm, network.hidden);
  packed.head = packer.layer(network.head, network.vocab, network.hidden);
  if (!packer.status()) return packer.status().error();
  packed.bytes = packer.bytes();
  return packed;
}

}  // namespace drafthorse::cpu
