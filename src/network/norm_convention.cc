#include "network/norm_convention.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "weights/json_file.h"

namespace drafthorse {
namespace {

constexpr double kFewNegatives = 0.05;

// Last axis of the first convolution, 0 without one.
int64_t convolution_columns(const Checkpoint& checkpoint, const HybridConfig& config, const ModelNames& names) {
  for (size_t i = 0; i < config.linear.size(); ++i) {
    if (!config.linear[i]) continue;
    const auto* conv = checkpoint.find(names.layer(static_cast<int64_t>(i)) + std::string(names.block->conv));
    if (conv) return conv->columns();
  }
  return 0;
}

const TensorView* weight_of(const Norm& norm) { return norm.weight ? &*norm.weight : nullptr; }

// What manifest.json says; none when there is no such file or key.
Result<std::optional<float>> manifest_offset(const std::filesystem::path& checkpoint) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(checkpoint, error);
  const std::filesystem::path folder = is_folder ? checkpoint : checkpoint.parent_path();
  for (const std::filesystem::path& path : {folder / "manifest.json", folder / "mtp" / "manifest.json"}) {
    if (!std::filesystem::exists(path, error)) continue;
    const Result<boost::json::object> manifest = read_json_object(path);
    if (!manifest) return manifest.error();
    const boost::json::value* format = manifest->if_contains("rmsnorm_weight_format");
    if (!format || !format->is_string()) continue;
    return std::optional<float>(format->get_string() == "mlx_gamma" ? 0.0f : 1.0f);
  }
  return std::optional<float>();
}

}  // namespace

NormStatistics norm_statistics(const std::vector<const TensorView*>& norms) {
  NormStatistics statistics;
  for (const TensorView* norm : norms) {
    if (!norm || norm->elements() > 1 << 24) continue;
    std::vector<float> values(static_cast<size_t>(norm->elements()));
    if (!dequantise(*norm, 0, norm->rows(), values).ok()) continue;
    for (const float value : values) {
      ++statistics.count;
      if (!(value > 0)) ++statistics.not_positive;
      statistics.sum += value;
    }
  }
  return statistics;
}

float trunk_norm_offset(const Checkpoint& checkpoint, const HybridConfig& config, const ModelNames& names) {
  if (checkpoint.kind() == Checkpoint::Kind::gguf || !config.hybrid) return 0;
  std::vector<const TensorView*> norms;
  for (int64_t i = 0; i < config.dense.layers; ++i) {
    norms.push_back(checkpoint.find(names.layer(i) + std::string(names.block->before_mixer) + ".weight"));
  }
  const NormStatistics statistics = norm_statistics(norms);
  const bool looks_centred = statistics.share_not_positive() > kFewNegatives;
  const int64_t columns = convolution_columns(checkpoint, config, names);
  if (columns == 0) return looks_centred ? 1 : 0;
  const bool centred = columns != 1;
  // Untrained norms are all zeros minus one, or all ones: the mean tells what few values cannot.
  if (centred != looks_centred && (looks_centred || statistics.mean() > 0.8)) {
    spdlog::warn(
        "{}: the layout of its convolutions says that its norms are stored {}, but {:.0f} % of the values of "
        "{} are not positive and their mean is {:.2f}; if its text is broken, convert the model again",
        checkpoint.path().string(), centred ? "minus one" : "as they are", 100 * statistics.share_not_positive(),
        names.block->before_mixer, statistics.mean());
  }
  return centred ? 1 : 0;
}

Result<float> head_norm_offset(const Checkpoint& checkpoint, const HeadNames& names, const Network& trunk,
                               bool with_trunk, float trunk_offset) {
  if (checkpoint.kind() == Checkpoint::Kind::gguf) return 0.0f;
  if (with_trunk && trunk_offset != 0) return trunk_offset;
  if (!with_trunk) {
    const Result<std::optional<float>> said = manifest_offset(checkpoint.path());
    if (!said) return said.error();
    if (*said) return **said;
  }
  const NormStatistics mine =
      norm_statistics({checkpoint.find(names.layer + std::string(names.block->before_mixer) + ".weight"),
                       checkpoint.find(names.layer + std::string(names.block->q_norm) + ".weight"),
                       checkpoint.find(names.final_norm + ".weight")});
  if (mine.share_not_positive() > kFewNegatives) return 1.0f;
  if (mine.not_positive == 0) return 0.0f;
  std::vector<const TensorView*> norms = {weight_of(trunk.final_norm)};
  if (!trunk.blocks.empty()) norms.push_back(weight_of(trunk.blocks.front().before_mixer));
  for (const Block& block : trunk.blocks) {
    const auto* attention = std::get_if<Attention>(&block.mixer);
    if (!attention || !attention->q_norm) continue;
    norms.push_back(weight_of(*attention->q_norm));
    break;
  }
  return mine.mean() < norm_statistics(norms).mean() + trunk_offset - 0.4 ? 1.0f : 0.0f;
}

}  // namespace drafthorse
