// Qwen3-Next: Qwen3.5's mathematics with the linear attention's projections fused, their rows grouped by key head. The
// rows are taken apart into Qwen3.5's tensors first.

#include <algorithm>

#include <fmt/format.h>

#include "network/families.h"
#include "network/hybrid_decoder.h"
#include "network/hybrid_names.h"
#include "weights/derived_checkpoint.h"

namespace drafthorse {
namespace {

// The rows of a fused projection that make one of its parts: in each key head's `group` rows, `count` from `first` on.
std::vector<RowRange> strided_rows(int64_t heads, int64_t group, int64_t first, int64_t count) {
  std::vector<RowRange> ranges;
  for (int64_t head = 0; head < heads; ++head) ranges.push_back({head * group + first, count});
  return ranges;
}

// Takes fused projections apart, layer by layer.
class Regrouper {
 public:
  Regrouper(std::shared_ptr<const Checkpoint> checkpoint, const HybridConfig& config)
      : checkpoint_(std::move(checkpoint)), config_(config), names_(find_model_names(*checkpoint_, true)) {}

  Result<std::shared_ptr<const Checkpoint>> regroup() {
    for (size_t i = 0; i < config_.linear.size(); ++i) {
      if (!config_.linear[i]) continue;
      if (Status status = layer(names_.layer(static_cast<int64_t>(i))); !status) return status.error();
    }
    if (replaced_.empty()) return checkpoint_;
    return derive_checkpoint(checkpoint_, replaced_, std::move(gathered_), {});
  }

 private:
  // [q key_dim | k key_dim | v ratio * value_dim | z ratio * value_dim] and [b ratio | a ratio] a key head.
  Status layer(const std::string& prefix) {
    const DeltaSizes& d = config_.delta;
    const BlockNames& block = *names_.block;
    const int64_t heads = d.key_heads, ratio = d.value_heads / d.key_heads, key = d.key_dim,
                  value = ratio * d.value_dim;
    const bool gguf = checkpoint_->kind() == Checkpoint::Kind::gguf;
    const auto weight = [&](std::string_view name) { return prefix + std::string(name) + ".weight"; };
    const auto part = [&](int64_t group, int64_t first, int64_t count) {
      return strided_rows(heads, group, first, count);
    };
    const int64_t group = 2 * key + 2 * value;
    std::vector<RowRange> qkv = part(group, 0, key);
    for (const RowRange& range : part(group, key, key)) qkv.push_back(range);
    for (const RowRange& range : part(group, 2 * key, value)) qkv.push_back(range);
    const std::string fused = weight(gguf ? "ssm_in" : "linear_attn.in_proj_qkvz");
    if (Status status = split(fused, heads * group,
                              {{weight(block.qkv), qkv}, {weight(block.z), part(group, 2 * key + value, value)}});
        !status) {
      return status;
    }
    return split(weight(gguf ? "ssm_ba" : "linear_attn.in_proj_ba"), heads * 2 * ratio,
                 {{weight(block.b), part(2 * ratio, 0, ratio)}, {weight(block.a), part(2 * ratio, ratio, ratio)}});
  }

  struct Part {
    std::string name;
    std::vector<RowRange> rows;
  };

  // A file whose projections are not fused is left as it is: what is missing will be named when it is looked for.
  Status split(const std::string& fused, int64_t rows, const std::vector<Part>& parts) {
    const TensorView* tensor = checkpoint_->find(fused);
    if (!tensor) return {};
    const std::vector<int64_t> expected = {rows, config_.dense.hidden};
    if (tensor->shape != expected) {
      return Error{ErrorKind::corrupt,
                   fmt::format("{}: tensor \"{}\": expected shape {}, found {}", checkpoint_->path().string(), fused,
                               shape_text(expected), shape_text(tensor->shape)),
                   {}};
    }
    for (const Part& part : parts) {
      Result<GatheredTensor> gathered = gather_rows(*tensor, part.rows, part.name);
      if (!gathered) return gathered.error().with_context(checkpoint_->path().string());
      gathered_.push_back(std::move(*gathered));
    }
    replaced_.push_back(fused);
    checkpoint_->release(*tensor);
    return {};
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
  const HybridConfig& config_;
  ModelNames names_;
  std::vector<std::string> replaced_;
  std::vector<GatheredTensor> gathered_;
};

}  // namespace

Result<Network> read_qwen3_next(std::shared_ptr<const Checkpoint> checkpoint, const std::string& type,
                                const ReadOptions& options) {
  const HybridRules rules{.family = "qwen3_next", .text_type = "qwen3_next"};
  const bool gguf = checkpoint->kind() == Checkpoint::Kind::gguf;
  Result<HybridConfig> config =
      gguf ? read_hybrid_gguf_config(*checkpoint, type, rules) : read_hybrid_config(*checkpoint, rules);
  if (!config) return config.error();
  // GGUF's b and a in one tensor mean that nothing was reordered.
  config->grouped_heads = gguf && std::any_of(checkpoint->tensors().begin(), checkpoint->tensors().end(),
                                              [](const TensorView& t) { return t.name.ends_with(".ssm_ba.weight"); });
  Result<std::shared_ptr<const Checkpoint>> regrouped = Regrouper(std::move(checkpoint), *config).regroup();
  if (!regrouped) return regrouped.error();
  return read_hybrid_decoder(std::move(*regrouped), *config, options);
}

}  // namespace drafthorse
