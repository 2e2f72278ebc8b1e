#pragma once
// What a checkpoint says beside its weights: vocabulary, chat template, stop tokens, sampling.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "completion/completion.h"
#include "weights/checkpoint.h"

namespace drafthorse {

// The tokenizer.ggml.* keys as plain data. Error: corrupt names the key that is missing or of the wrong type.
Result<GgufVocabulary> gguf_vocabulary(const GgufMetadata& metadata);

// From tokenizer.json (and tokenizer_config.json) beside the weights, or from GGUF metadata.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const Checkpoint& checkpoint);

struct ChatTemplates {
  std::shared_ptr<const ChatTemplate> chat, tools;  // null: none; tools only where it differs
};
// In order: chat_template.jinja, tokenizer_config.json "chat_template" (text, or a list with "default" and
// "tool_use"), GGUF tokenizer.chat_template. A template that is one {% include 'file' %} means that file.
Result<ChatTemplates> load_chat_templates(const Checkpoint& checkpoint);

// Union of what config.json, generation_config.json, GGUF metadata and the tokenizer declare as end of text, and the
// known end-of-turn tokens that the vocabulary has. Ascending.
Result<std::vector<int32_t>> load_stop_tokens(const Checkpoint& checkpoint, const Tokenizer& tokenizer);

// Server flags over generation_config.json over the family's top_k and top_p over neutral.
// Error: invalid_argument or corrupt with the field and its range.
Result<SamplingParams> load_sampling(const Checkpoint& checkpoint, const Network& network, const LoadOptions& options);

}  // namespace drafthorse
