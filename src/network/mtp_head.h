#pragma once
// Qwen's drafting head for multi-token prediction: one block whose input joins a token's embedding with the trunk's
// hidden vector. It lies in the trunk's checkpoint, in a file beside it, or in a folder of its own.

#include <memory>
#include <optional>

#include "network/hybrid_config.h"
#include "network/hybrid_names.h"
#include "network/network.h"
#include "network/tensor_source.h"

namespace drafthorse {

// A head that lies outside the trunk's checkpoint.
struct HeadFile {
  std::shared_ptr<const Checkpoint> checkpoint;
  bool guessed = false;  // a folder beside the model whose name says that it goes with it
};

// The head's file: options.mtp (a file or a folder), config.mtp_file, or the first of the names that packs use, in the
// model's folder or beside it. None when there is none. Errors: a path that was given does not open; config.json's path
// leads out of the model's folder.
Result<std::optional<HeadFile>> find_head_file(const Checkpoint& trunk, const HybridConfig& config,
                                               const ReadOptions& options);

// The head whose tensors `source` has under `names`. The Network shares the trunk's embedding and head.
// Errors: corrupt and unsupported, naming the tensor.
Result<Network> read_head(TensorSource& source, const HeadNames& names, const HybridConfig& config,
                          const Network& trunk, float norm_offset, const HeadContract& contract);

// A head from its own file; keeps that file and the trunk's checkpoint alive.
Result<Network> read_head_file(std::shared_ptr<const Checkpoint> file, const HybridConfig& config, const Network& trunk,
                               float trunk_offset, const HeadContract& contract);

// mtplx_runtime.json's mtp_contract in the folder of a checkpoint, on top of what config.json said.
// Errors: values that are not understood, by name.
Result<HeadContract> read_head_contract(const Checkpoint& checkpoint, HeadContract contract);

}  // namespace drafthorse
