#include <functional>

#include <fmt/format.h>

#include "network/config_reader.h"
#include "network/dense_config.h"
#include "network/families.h"
#include "weights/gguf.h"

namespace drafthorse {
namespace {

using FamilyReader = std::function<Result<Network>(std::shared_ptr<const Checkpoint>, const ReadOptions&)>;

// A family without a drafting head.
FamilyReader headless(Result<Network> (*read)(std::shared_ptr<const Checkpoint>)) {
  return [read](std::shared_ptr<const Checkpoint> checkpoint, const ReadOptions& options) -> Result<Network> {
    if (options.mtp.empty()) return read(std::move(checkpoint));
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: this family has no drafting head; leave --mtp {} out", checkpoint->path().string(),
                             options.mtp),
                 "mtp"};
  };
}

// By `model_type` of config.json, or by GGUF's general.architecture; empty for a family that is not offered.
FamilyReader family_reader(const std::string& type) {
  const auto typed = [&](auto read) {
    return [read, type](std::shared_ptr<const Checkpoint> checkpoint, const ReadOptions& options) {
      return read(std::move(checkpoint), type, options);
    };
  };
  if (type == "llama" || type == "mistral") return headless(read_llama);
  if (type == "qwen2") return headless(read_qwen2);
  if (type == "qwen3") return headless(read_qwen3);
  for (const char* name : {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen35", "qwen35moe"}) {
    if (type == name) return typed(read_qwen3_5);
  }
  if (type == "qwen3_moe" || type == "qwen3moe") return typed(read_qwen3_moe);
  if (type == "qwen3_next" || type == "qwen3next") return typed(read_qwen3_next);
  return nullptr;
}

// The key that names the family, and its value.
struct FamilyName {
  const char* key;
  std::string value;
};

Result<FamilyName> family_name(const Checkpoint& checkpoint) {
  const bool gguf = checkpoint.kind() == Checkpoint::Kind::gguf;
  FamilyName name{gguf ? "general.architecture" : "model_type", ""};
  if (gguf) {
    if (const auto* text = find_value<std::string>(checkpoint.metadata(), name.key)) name.value = *text;
  } else {
    ConfigReader reader(checkpoint.config(), config_place(checkpoint));
    name.value = reader.text(name.key).value_or("");
    if (!reader.status()) return reader.status().error();
  }
  if (!name.value.empty()) return name;
  return Error{ErrorKind::corrupt,
               fmt::format("{}: expected the key \"{}\" to name the model's family, but it is missing",
                           checkpoint.path().string(), name.key),
               {}};
}

std::string display_name(const Checkpoint& checkpoint) {
  const auto* name = find_value<std::string>(checkpoint.metadata(), "general.name");
  if (name && !name->empty()) return *name;
  std::filesystem::path path = checkpoint.path();
  if (checkpoint.kind() == Checkpoint::Kind::gguf) return path.stem().string();
  if (!path.has_filename()) path = path.parent_path();  // "models/x/"
  return path.filename().string();
}

uint64_t linear_bytes(const Linear& linear) { return linear.weight.bytes() + (linear.bias ? linear.bias->bytes() : 0); }

uint64_t norm_bytes(const std::optional<Norm>& norm) { return norm && norm->weight ? norm->weight->bytes() : 0; }

uint64_t mixer_bytes(const Attention& a) {
  uint64_t total = norm_bytes(a.q_norm) + norm_bytes(a.k_norm);
  for (const Linear* linear : {&a.q, &a.k, &a.v, &a.o}) total += linear_bytes(*linear);
  return total;
}

uint64_t mixer_bytes(const DeltaNet& d) {
  uint64_t total = d.conv.bytes() + d.decay.bytes() + d.dt_bias.bytes() + norm_bytes(d.norm);
  for (const Linear* linear : {&d.qkv, &d.z, &d.b, &d.a, &d.out}) total += linear_bytes(*linear);
  return total;
}

uint64_t ffn_bytes(const Mlp& m) { return linear_bytes(m.gate) + linear_bytes(m.up) + linear_bytes(m.down); }

// The experts are all of one size; a token reads top_k of them.
uint64_t ffn_bytes(const Moe& m) {
  uint64_t total = linear_bytes(m.router);
  if (!m.experts.empty()) total += static_cast<uint64_t>(m.top_k) * ffn_bytes(m.experts.front());
  if (m.shared) total += ffn_bytes(*m.shared);
  if (m.shared_gate) total += linear_bytes(*m.shared_gate);
  return total;
}

uint64_t block_bytes(const Block& block) {
  const uint64_t norms = norm_bytes(block.before_mixer) + norm_bytes(block.after_mixer) + norm_bytes(block.before_ffn) +
                         norm_bytes(block.after_ffn);
  return norms + std::visit([](const auto& mixer) { return mixer_bytes(mixer); }, block.mixer) +
         std::visit([](const auto& ffn) { return ffn_bytes(ffn); }, block.ffn);
}

}  // namespace

Result<Network> read_network(std::shared_ptr<const Checkpoint> checkpoint, const ReadOptions& options) {
  const Result<FamilyName> family = family_name(*checkpoint);
  if (!family) return family.error();
  const FamilyReader read = family_reader(family->value);
  if (!read) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: {} \"{}\" is not supported; supported are llama, mistral, qwen2, qwen3, "
                             "qwen3_moe, qwen3_next, qwen3_5 and qwen3_5_moe",
                             checkpoint->path().string(), family->key, family->value),
                 {}};
  }
  std::string name = display_name(*checkpoint);
  Result<Network> network = read(std::move(checkpoint), options);
  if (network) network->name = std::move(name);
  return network;
}

uint64_t bytes_per_token(const Network& network) {
  uint64_t total = linear_bytes(network.head) + norm_bytes(network.final_norm);
  for (const Block& block : network.blocks) total += block_bytes(block);
  if (network.embedding.rows() > 0)
    total += network.embedding.bytes() / static_cast<uint64_t>(network.embedding.rows());
  if (const auto& joined = network.joined_input) {
    total += linear_bytes(joined->fc) + norm_bytes(joined->embedding_norm) + norm_bytes(joined->hidden_norm);
  }
  return total;
}

}  // namespace drafthorse
