#include <algorithm>

#include <fmt/format.h>

#include "network/config_reader.h"
#include "network/dense_config.h"
#include "network/families.h"
#include "weights/gguf.h"

namespace drafthorse {
namespace {

using FamilyReader = Result<Network> (*)(std::shared_ptr<const Checkpoint>);

// By `model_type` of config.json, or by GGUF's general.architecture; nullptr for a family that is not offered.
FamilyReader family_reader(std::string_view type) {
  if (type == "llama" || type == "mistral") return read_llama;
  if (type == "qwen2") return read_qwen2;
  if (type == "qwen3") return read_qwen3;
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

uint64_t block_bytes(const Block& block) {
  uint64_t total = norm_bytes(block.before_mixer) + norm_bytes(block.after_mixer) + norm_bytes(block.before_ffn) +
                   norm_bytes(block.after_ffn);
  if (const auto* a = std::get_if<Attention>(&block.mixer)) {
    for (const Linear* linear : {&a->q, &a->k, &a->v, &a->o}) total += linear_bytes(*linear);
    total += norm_bytes(a->q_norm) + norm_bytes(a->k_norm);
  }
  if (const auto* m = std::get_if<Mlp>(&block.ffn)) {
    for (const Linear* linear : {&m->gate, &m->up, &m->down}) total += linear_bytes(*linear);
  }
  return total;
}

}  // namespace

Result<Network> read_network(std::shared_ptr<const Checkpoint> checkpoint, const ReadOptions&) {
  const Result<FamilyName> family = family_name(*checkpoint);
  if (!family) return family.error();
  const FamilyReader read = family_reader(family->value);
  if (!read) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: {} \"{}\" is not supported; supported are llama, mistral, qwen2 and qwen3",
                             checkpoint->path().string(), family->key, family->value),
                 {}};
  }
  std::string name = display_name(*checkpoint);
  Result<Network> network = read(std::move(checkpoint));
  if (network) network->name = std::move(name);
  return network;
}

uint64_t bytes_per_token(const Network& network) {
  uint64_t total = linear_bytes(network.head) + norm_bytes(network.final_norm);
  for (const Block& block : network.blocks) total += block_bytes(block);
  if (network.embedding.rows() > 0)
    total += network.embedding.bytes() / static_cast<uint64_t>(network.embedding.rows());
  return total;
}

}  // namespace drafthorse
