#include "network/hybrid_decoder.h"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "network/hybrid_blocks.h"
#include "network/hybrid_names.h"
#include "network/mtp_head.h"
#include "network/norm_convention.h"
#include "network/tensor_source.h"

namespace drafthorse {
namespace {

void read_blocks(TensorSource& source, const HybridConfig& config, const ModelNames& names, BlockReader& reader,
                 Network& network) {
  const DenseConfig& c = config.dense;
  const Rope rope = make_rope(c.rope_dims, c.rope_base, c.rope_scaling, false);
  for (size_t i = 0; i < static_cast<size_t>(c.layers) && source.ok(); ++i) {
    network.blocks.push_back(reader.read(names.layer(static_cast<int64_t>(i)), config.linear[i], config.mixture[i],
                                         rope, c.windows.empty() ? 0 : c.windows[i]));
  }
}

// A head of its own if the checkpoint has one, else the embedding.
void read_output(TensorSource& source, const HybridConfig& config, const ModelNames& names, BlockReader& reader,
                 Network& network) {
  network.final_norm = reader.norm(names.final_norm, network.hidden);
  network.tied_head = !config.dense.head_required && !source.has(names.head + ".weight");
  if (network.tied_head) {
    network.head.weight = network.embedding;
  } else {
    network.head = reader.linear(names.head, network.vocab, network.hidden);
  }
}

Network read_trunk(TensorSource& source, const HybridConfig& config, const ModelNames& names, float norm_offset) {
  BlockReader reader(source, config, *names.block, norm_offset);
  Network network;
  network.family = config.dense.family;
  network.context_length = config.dense.context_length;
  network.hidden = config.dense.hidden;
  const TensorView* embedding = source.find(names.embedding + ".weight");
  const int64_t rows = embedding ? embedding->rows() : 0;
  network.vocab = config.dense.vocab ? config.dense.vocab : rows > INT32_MAX ? 0 : static_cast<int>(rows);
  network.embedding = source.matrix(names.embedding + ".weight", network.vocab, network.hidden);
  read_blocks(source, config, names, reader, network);
  read_output(source, config, names, reader, network);
  return network;
}

// Everything in the file must have a place, but the other senses' parts, and a head that another file's replaces.
Status check_all_taken(const TensorSource& source, const HeadNames& head, bool head_replaced) {
  int64_t other_senses = 0;
  const auto ignored = [&](std::string_view name) {
    if (is_other_sense(name)) return ++other_senses > 0;
    return head_replaced && name.starts_with(head.prefix.empty() ? head.layer : head.prefix);
  };
  Status status = source.check_all_taken(ignored);
  if (status && other_senses > 0) {
    spdlog::info("{}: {} tensors for images and sound are left alone", source.checkpoint().path().string(),
                 other_senses);
  }
  return status;
}

void attach_head(Network& network, Network head, const HeadContract& contract) {
  head.name = "drafting head";
  network.mtp_hidden = contract.hidden.value_or(Hidden::after_norm);
  network.mtp_hidden_known = contract.hidden.has_value();
  network.mtp = std::make_shared<const Network>(std::move(head));
}

// The head from a file of its own, where there is one. A file that only its name points to is left alone, with a
// warning, when it does not fit.
Status add_head_from_file(Network& network, const HeadFile& file, const HybridConfig& config, float norm_offset) {
  Result<HeadContract> contract = read_head_contract(*file.checkpoint, config.head);
  Result<Network> head =
      contract ? read_head_file(file.checkpoint, config, network, norm_offset, *contract) : contract.error();
  if (head) {
    attach_head(network, std::move(*head), *contract);
    return {};
  }
  if (!file.guessed) return head.error();
  spdlog::warn("drafting without the head beside the model, as it does not fit: {}", head.error().message);
  return {};
}

}  // namespace

Result<Network> read_hybrid_decoder(std::shared_ptr<const Checkpoint> checkpoint, const HybridConfig& config,
                                    const ReadOptions& options) {
  const ModelNames names = find_model_names(*checkpoint, config.hybrid);
  const HeadNames head_names = find_head_names(*checkpoint, config.dense.layers);
  const float norm_offset = trunk_norm_offset(*checkpoint, config, names);
  TensorSource source(*checkpoint);
  Network network = read_trunk(source, config, names, norm_offset);
  if (!source.ok()) return source.status().error();
  network.checkpoint = checkpoint;

  const bool gguf = checkpoint->kind() == Checkpoint::Kind::gguf;
  const bool head_here = head_names.found || (gguf && config.heads_in_file > 0);
  if (head_here && options.mtp.empty()) {
    const Result<HeadContract> contract = read_head_contract(*checkpoint, config.head);
    if (!contract) return contract.error();
    const Result<float> offset = head_norm_offset(*checkpoint, head_names, network, true, norm_offset);
    if (!offset) return offset.error();
    Result<Network> head = read_head(source, head_names, config, network, *offset, *contract);
    if (!head) return head.error();
    head->checkpoint = checkpoint;
    attach_head(network, std::move(*head), *contract);
  }
  if (Status status = check_all_taken(source, head_names, head_here && !network.mtp); !status) return status.error();
  if (network.mtp) return network;
  const Result<std::optional<HeadFile>> file = find_head_file(*checkpoint, config, options);
  if (!file) return file.error();
  if (*file) {
    if (Status status = add_head_from_file(network, **file, config, norm_offset); !status) return status.error();
  }
  return network;
}

}  // namespace drafthorse
