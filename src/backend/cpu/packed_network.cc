#include "backend/cpu/packed_network.h"

#include <fmt/format.h>

#include "backend/rope.h"
#include "core/math.h"

namespace drafthorse::cpu {
namespace {

// f(weight) for every matrix of a block.
template <class F>
void for_each_matrix(const Block& block, F f) {
  auto all = [&](std::initializer_list<const Linear*> linears) {
    for (const Linear* linear : linears) f(linear->weight);
  };
  if (const auto* a = std::get_if<Attention>(&block.mixer)) {
    all({&a->q, &a->k, &a->v, &a->o});
  } else {
    const DeltaNet& d = std::get<DeltaNet>(block.mixer);
    all({&d.qkv, &d.z, &d.b, &d.a, &d.out});
  }
  if (const auto* m = std::get_if<Mlp>(&block.ffn)) return all({&m->gate, &m->up, &m->down});
  const Moe& moe = std::get<Moe>(block.ffn);
  all({&moe.router});
  for (const Mlp& m : moe.experts) all({&m.gate, &m.up, &m.down});
  if (moe.shared) all({&moe.shared->gate, &moe.shared->up, &moe.shared->down});
  if (moe.shared_gate) all({&*moe.shared_gate});
}

uint64_t matrix_bytes(const Network& network, bool with_head) {
  uint64_t bytes = with_head ? network.head.weight.bytes() : 0;
  if (network.joined_input) bytes += network.joined_input->fc.weight.bytes();
  for (const Block& block : network.blocks) {
    for_each_matrix(block, [&](const TensorView& weight) { bytes += weight.bytes(); });
  }
  return bytes;
}

// Collects the first error, so that a block is packed by a plain list of calls.
class Packer {
 public:
  Packer(const Network& network, ThreadPool& pool, const Progress& progress, bool with_head)
      : network_(network), pool_(pool), progress_(progress), total_(matrix_bytes(network, with_head)) {}

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
    count(packed.linear, linear.weight.bytes());
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
    packed.gated = a.gated;
    packed.q = layer(a.q, a.gated ? 2 * queries : queries, hidden);
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

  PackedDelta delta(const DeltaNet& d) {
    PackedDelta packed;
    Result<DeltaShape> shape = delta_shape(d);
    if (!shape) {
      fail(shape.error());
      return packed;
    }
    packed.shape = *shape;
    const int64_t hidden = network_.hidden, channels = shape->channels(), heads = shape->value_heads;
    packed.qkv = layer(d.qkv, channels, hidden);
    packed.z = layer(d.z, shape->values(), hidden);
    packed.b = layer(d.b, heads, hidden);
    packed.a = layer(d.a, heads, hidden);
    packed.out = layer(d.out, hidden, shape->values());
    const std::vector<float> conv = vector(d.conv, channels * d.kernel);
    packed.taps.resize(conv.size());
    for (int64_t c = 0; c < channels; ++c) {
      for (int j = 0; j < d.kernel; ++j) packed.taps[j * channels + c] = conv[c * d.kernel + j];
    }
    packed.decay = vector(d.decay, heads);
    if (d.decay_is_log) {
      for (float& value : packed.decay) value = -exp_fixed(value);
    }
    packed.dt_bias = vector(d.dt_bias, heads);
    packed.norm = norm(d.norm, d.value_dim);
    packed.gate = d.gate;
    if (d.gate != Activation::silu && d.gate != Activation::sigmoid) {
      fail({ErrorKind::unsupported, "the output gate of a gated delta rule is neither silu nor sigmoid", ""});
    }
    return packed;
  }

  PackedMoe moe(const Moe& m) {
    PackedMoe packed;
    const int64_t hidden = network_.hidden, experts = int64_t(m.experts.size());
    if (experts == 0 || m.top_k < 1 || m.top_k > experts) {
      fail({ErrorKind::unsupported, fmt::format("a mixture of {} experts of which each row takes {}", experts, m.top_k),
            ""});
      return packed;
    }
    packed.experts = int(experts), packed.top_k = m.top_k, packed.normalised = m.normalised;
    packed.inner = m.experts[0].gate.out_features(), packed.activation = m.experts[0].activation;
    packed.router = layer(m.router, experts, hidden);
    std::vector<const TensorView*> gate_up, down;
    for (const Mlp& expert : m.experts) {
      for (const Linear* linear : {&expert.gate, &expert.up, &expert.down}) {
        if (!linear->bias) continue;
        fail({ErrorKind::unsupported, fmt::format("{}: an expert with a bias", linear->bias->name), ""});
      }
      if (expert.activation != packed.activation) {
        fail({ErrorKind::unsupported, "experts of one block with different activations", ""});
      }
      gate_up.insert(gate_up.end(), {&expert.gate.weight, &expert.up.weight});
      down.push_back(&expert.down.weight);
    }
    packed.gate_up = together(gate_up, packed.inner, hidden);
    packed.down = together(down, hidden, packed.inner);
    if (m.shared) packed.shared = mlp(*m.shared);
    if (m.shared_gate) packed.shared_gate = layer(*m.shared_gate, 1, hidden);
    return packed;
  }

  PackedJoinedInput joined(const JoinedInput& input) {
    PackedJoinedInput packed;
    const int64_t hidden = network_.hidden;
    packed.embedding_norm = norm(input.embedding_norm, hidden);
    packed.hidden_norm = norm(input.hidden_norm, hidden);
    packed.fc = layer(input.fc, hidden, 2 * hidden);
    packed.embedding_first = input.embedding_first;
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

  void count(const PackedLinear& packed, uint64_t source_bytes) {
    bytes_ += packed.bytes();
    done_ += source_bytes;
    if (progress_) progress_(done_, total_);
  }

  // Matrices of [outputs, inputs] each, packed as one.
  PackedLinear together(const std::vector<const TensorView*>& parts, int64_t outputs, int64_t inputs) {
    if (!status_.ok()) return {};
    uint64_t bytes = 0;
    for (const TensorView* part : parts) {
      if (!expect(*part, {outputs, inputs})) return {};
      bytes += part->bytes();
    }
    Result<PackedLinear> matrix = pack(parts, pool_, network_.checkpoint.get());
    if (!matrix) {
      fail(matrix.error());
      return {};
    }
    count(*matrix, bytes);
    return std::move(*matrix);
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

Result<PackedNetwork> pack_network(const Network& network, ThreadPool& pool, const Progress& progress,
                                   std::shared_ptr<const PackedLayer> head) {
  PackedNetwork packed;
  Packer packer(network, pool, progress, !head);
  int attention_layers = 0, recurrent_layers = 0;
  for (size_t i = 0; i < network.blocks.size(); ++i) {
    packer.at(fmt::format("block {}", i));
    const Block& block = network.blocks[i];
    PackedBlock& out = packed.blocks.emplace_back();
    out.before_mixer = packer.norm(block.before_mixer, network.hidden);
    if (const auto* attention = std::get_if<Attention>(&block.mixer)) {
      PackedAttention mixer = packer.attention(*attention, packed.ropes);
      mixer.layer = attention_layers++;
      out.mixer = std::move(mixer);
    } else {
      PackedDelta mixer = packer.delta(std::get<DeltaNet>(block.mixer));
      mixer.layer = recurrent_layers++;
      out.mixer = std::move(mixer);
    }
    out.after_mixer = packer.norm(block.after_mixer, network.hidden);
    out.before_ffn = packer.norm(block.before_ffn, network.hidden);
    if (const auto* mlp = std::get_if<Mlp>(&block.ffn)) {
      out.ffn = packer.mlp(*mlp);
    } else {
      out.ffn = packer.moe(std::get<Moe>(block.ffn));
    }
    out.after_ffn = packer.norm(block.after_ffn, network.hidden);
    if (!packer.status()) return packer.status().error();
  }
  if (network.joined_input) {
    packer.at("joined input");
    packed.joined_input = packer.joined(*network.joined_input);
  }
  packer.at("head");
  packed.final_norm = packer.norm(network.final_norm, network.hidden);
  if (!head) head = std::make_shared<PackedLayer>(packer.layer(network.head, network.vocab, network.hidden));
  packed.head = std::move(head);
  if (!packer.status()) return packer.status().error();
  packed.bytes = packer.bytes();
  return packed;
}

}  // namespace drafthorse::cpu
