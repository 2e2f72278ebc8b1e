#pragma once
// Reads one block of Qwen's hybrid models and mixtures: gated attention or DeltaNet, an MLP or a mixture of experts.

#include <string>

#include "network/hybrid_config.h"
#include "network/hybrid_names.h"
#include "network/network.h"
#include "network/tensor_source.h"

namespace drafthorse {

class BlockReader {
 public:
  // norm_offset: 1 where the file stores norms minus one. The first failed check is kept in source.status().
  BlockReader(TensorSource& source, const HybridConfig& config, const BlockNames& names, float norm_offset)
      : source_(source), config_(config), names_(names), norm_offset_(norm_offset) {}

  // prefix: of all the block's names, e.g. "model.layers.3.".
  Block read(const std::string& prefix, bool linear_mixer, bool mixture, const Rope& rope, int window);

  // name: whole, without ".weight".
  Linear linear(const std::string& name, int64_t out, int64_t in, Bias bias = Bias::none);
  Norm norm(const std::string& name, int64_t size);

 private:
  bool is_gguf() const { return source_.checkpoint().kind() == Checkpoint::Kind::gguf; }
  Attention attention(const std::string& prefix, const Rope& rope, int window);
  DeltaNet delta_net(const std::string& prefix);
  TensorView convolution(const std::string& name);
  Mlp mlp(const std::string& prefix, std::string_view gate, std::string_view up, std::string_view gate_up,
          std::string_view down, int64_t size);
  Moe moe(const std::string& prefix);

  TensorSource& source_;
  const HybridConfig& config_;
  const BlockNames& names_;
  float norm_offset_;
};

// The experts of the mixture whose names begin with `prefix`: fused or split projections, stacked in one tensor or one
// by one, as Hugging Face, MLX and GGUF write them. sizes: experts and intermediate. Errors in source.status().
std::vector<Mlp> read_experts(TensorSource& source, const std::string& prefix, const MoeSizes& sizes, int64_t hidden);

}  // namespace drafthorse
