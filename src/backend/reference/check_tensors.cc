#include "backend/reference/check_tensors.h"

#include <fmt/format.h>

#include <vector>

#include "backend/scheme.h"

namespace drafthorse::reference {
namespace {

// Goes on until the first error.
class Checker {
 public:
  void vector(const TensorView& tensor) {
    if (!status) return;
    if (tensor.rows() < 1) {
      status = Error{ErrorKind::corrupt, tensor.name + ": an empty tensor", ""};
      return;
    }
    std::vector<float> row(size_t(tensor.columns()));
    status = dequantise(tensor, 0, 1, row);
  }
  void linear(const Linear& linear) {
    if (!status) return;
    if (Result<Scheme> scheme = scheme_of(linear.weight); !scheme) {
      status = scheme.error();
    } else if (linear.bias) {
      vector(*linear.bias);
    }
  }
  void norm(const Norm& norm) {
    if (norm.weight) vector(*norm.weight);
  }
  void norm(const std::optional<Norm>& part) {
    if (part) norm(*part);
  }

  void part(const Attention& a) {
    for (const Linear* matrix : {&a.q, &a.k, &a.v, &a.o}) linear(*matrix);
    norm(a.q_norm), norm(a.k_norm);
  }
  void part(const DeltaNet& d) {
    for (const Linear* matrix : {&d.qkv, &d.z, &d.b, &d.a, &d.out}) linear(*matrix);
    for (const TensorView* tensor : {&d.conv, &d.decay, &d.dt_bias}) vector(*tensor);
    norm(d.norm);
  }
  void part(const Mlp& m) {
    for (const Linear* matrix : {&m.gate, &m.up, &m.down}) linear(*matrix);
  }
  void part(const Moe& m) {
    linear(m.router);
    for (const Mlp& expert : m.experts) part(expert);
    if (m.shared) part(*m.shared);
    if (m.shared_gate) linear(*m.shared_gate);
  }
  void block(const Block& b) {
    norm(b.before_mixer), norm(b.after_mixer), norm(b.before_ffn), norm(b.after_ffn);
    std::visit([&](const auto& mixer) { part(mixer); }, b.mixer);
    std::visit([&](const auto& ffn) { part(ffn); }, b.ffn);
  }

  Status status;
};

}  // namespace

Status check_tensors(const Network& network) {
  Checker check;
  check.vector(network.embedding);
  check.linear(network.head);
  check.norm(network.final_norm);
  if (network.joined_input) {
    check.norm(network.joined_input->embedding_norm);
    check.norm(network.joined_input->hidden_norm);
    check.linear(network.joined_input->fc);
  }
  if (!check.status) return check.status;
  for (size_t b = 0; b < network.blocks.size(); ++b) {
    check.block(network.blocks[b]);
    if (!check.status) return check.status.error().with_context(fmt::format("block {}", b));
  }
  return {};
}

}  // namespace drafthorse::reference
