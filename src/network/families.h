#pragma once
// The families: each translates one kind of checkpoint. read_network picks one by model_type or architecture.

#include "network/network.h"

namespace drafthorse {

Result<Network> read_llama(std::shared_ptr<const Checkpoint> checkpoint);  // Llama 3.x, SmolLM2, Mistral
Result<Network> read_qwen2(std::shared_ptr<const Checkpoint> checkpoint);  // Qwen2, Qwen2.5
Result<Network> read_qwen3(std::shared_ptr<const Checkpoint> checkpoint);  // Qwen3 dense

// type: the model_type or architecture that the checkpoint gives. options.mtp: where the drafting head lies.
// Qwen3.5, 3.6 and 3.8, dense and mixtures.
Result<Network> read_qwen3_5(std::shared_ptr<const Checkpoint> checkpoint, const std::string& type,
                             const ReadOptions& options);
Result<Network> read_qwen3_next(std::shared_ptr<const Checkpoint> checkpoint, const std::string& type,
                                const ReadOptions& options);
Result<Network> read_qwen3_moe(std::shared_ptr<const Checkpoint> checkpoint, const std::string& type,
                               const ReadOptions& options);

}  // namespace drafthorse
