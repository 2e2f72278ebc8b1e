#include "network/mtp_head.h"

#include <algorithm>

#include <fmt/format.h>

#include "network/config_reader.h"
#include "network/hybrid_blocks.h"
#include "network/norm_convention.h"
#include "weights/derived_checkpoint.h"
#include "weights/gguf.h"
#include "weights/json_file.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

// The folder that a checkpoint is, or lies in.
fs::path folder_of(const Checkpoint& checkpoint) {
  std::error_code error;
  return fs::is_directory(checkpoint.path(), error) ? checkpoint.path() : checkpoint.path().parent_path();
}

// The block that GGUF's head is: the first after the trunk's.
int64_t gguf_head_block(const Checkpoint& checkpoint) {
  const GgufMetadata& metadata = checkpoint.metadata();
  const auto* architecture = find_value<std::string>(metadata, "general.architecture");
  if (!architecture) return 0;
  const auto* blocks = find_value<int64_t>(metadata, *architecture + ".block_count");
  const auto* heads = find_value<int64_t>(metadata, *architecture + ".nextn_predict_layers");
  if (!blocks || !heads || *heads < 0 || *blocks < *heads) return 0;
  return *blocks - *heads;
}

// The two words that files have for the trunk's vectors.
Hidden read_variant(ConfigReader& reader, std::string_view key, const std::string& text) {
  if (text == "post_norm" || text == "post") return Hidden::after_norm;
  if (text == "pre_norm" || text == "pre") return Hidden::before_norm;
  reader.fail(ErrorKind::unsupported, key,
              fmt::format("\"{}\" is not implemented; supported are post_norm and pre_norm", text));
  return Hidden::after_norm;
}

void read_runtime_contract(ConfigReader& reader, HeadContract& contract) {
  const auto variant = reader.text("hidden_variant");
  const auto base = reader.text("base_hidden_variant");
  if (variant) contract.hidden = read_variant(reader, "hidden_variant", *variant);
  if (base) contract.hidden = read_variant(reader, "base_hidden_variant", *base);
  const auto order = reader.text("concat_order");
  if (order == "embedding_hidden") contract.embedding_first = true;
  if (order == "hidden_embedding") contract.embedding_first = false;
  if (order && order != "embedding_hidden" && order != "hidden_embedding") {
    reader.fail(ErrorKind::unsupported, "concat_order",
                fmt::format("\"{}\" is not implemented; supported are embedding_hidden and hidden_embedding", *order));
  }
  // The head's history is kept from position 0 on, where the three ways to count positions agree.
  const auto positions = reader.text("mtp_position_mode");
  if (positions && positions != "cache" && positions != "local" && positions != "absolute") {
    reader.fail(ErrorKind::unsupported, "mtp_position_mode",
                fmt::format("\"{}\" is not implemented; supported are cache, local and absolute", *positions));
  }
}

}  // namespace

Result<HeadContract> read_head_contract(const Checkpoint& checkpoint, HeadContract contract) {
  const fs::path path = folder_of(checkpoint) / "mtplx_runtime.json";
  std::error_code error;
  if (!fs::exists(path, error)) return contract;
  const Result<boost::json::object> runtime = read_json_object(path);
  if (!runtime) return runtime.error();
  ConfigReader outer(*runtime, path.string());
  if (const boost::json::object* object = outer.object("mtp_contract")) {
    ConfigReader inner(*object, path.string() + ": \"mtp_contract\"");
    read_runtime_contract(inner, contract);
    outer.adopt(inner.status());
  }
  if (!outer.status()) return outer.status().error();
  return contract;
}

Result<Network> read_head(TensorSource& source, const HeadNames& names, const HybridConfig& config,
                          const Network& trunk, float norm_offset, const HeadContract& contract) {
  BlockReader reader(source, config, *names.block, norm_offset);
  const DenseConfig& c = config.dense;
  Network head;
  head.family = trunk.family;
  head.hidden = trunk.hidden;
  head.vocab = trunk.vocab;
  head.context_length = trunk.context_length;
  head.embedding = trunk.embedding;
  head.embedding_scale = trunk.embedding_scale;
  head.head = trunk.head;
  head.tied_head = trunk.tied_head;
  head.logit_softcap = trunk.logit_softcap;
  JoinedInput& joined = head.joined_input.emplace();
  joined.embedding_norm = reader.norm(names.embedding_norm, c.hidden);
  joined.hidden_norm = reader.norm(names.hidden_norm, c.hidden);
  joined.fc = reader.linear(names.fc, c.hidden, 2 * int64_t{c.hidden});
  joined.embedding_first = contract.embedding_first.value_or(true);
  const bool mixture = std::find(config.mixture.begin(), config.mixture.end(), true) != config.mixture.end();
  head.blocks.push_back(
      reader.read(names.layer, false, mixture, make_rope(c.rope_dims, c.rope_base, c.rope_scaling, false), 0));
  head.final_norm = reader.norm(names.final_norm, c.hidden);
  if (!source.ok()) return source.status().error().with_context("drafting head");
  return head;
}

Result<Network> read_head_file(std::shared_ptr<const Checkpoint> file, const HybridConfig& config, const Network& trunk,
                               float trunk_offset, const HeadContract& contract) {
  const HeadNames names = find_head_names(*file, gguf_head_block(*file));
  if (!names.found) {
    return Error{ErrorKind::corrupt,
                 fmt::format("{}: expected a drafting head's tensors ({}.weight and others), but it has none",
                             file->path().string(), names.fc),
                 {}};
  }
  const Result<float> offset = head_norm_offset(*file, names, trunk, false, trunk_offset);
  if (!offset) return offset.error();
  TensorSource source(*file);
  Result<Network> head = read_head(source, names, config, trunk, *offset, contract);
  if (!head) return head.error();
  // The file may hold a whole model, of which only the head is wanted; a file that is a head holds nothing else.
  const std::string prefix = file->kind() == Checkpoint::Kind::gguf ? names.layer : names.prefix;
  const Status status =
      source.check_all_taken([&](std::string_view name) { return !prefix.empty() && !name.starts_with(prefix); });
  if (!status) return status.error();
  head->checkpoint = derive_checkpoint(file, {}, {}, {trunk.checkpoint});
  return head;
}

}  // namespace drafthorse
