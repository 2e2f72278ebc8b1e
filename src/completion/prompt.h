#pragma once
// From a request's prompt to token ids.

#include "completion/completion.h"
#include "completion/reasoning.h"

namespace drafthorse {

struct PreparedPrompt {
  bool chat = false;
  std::vector<int32_t> tokens;
  std::string text;  // of a plain text prompt, for echo
  ReasoningSplitter::Start reasoning = ReasoningSplitter::Start::off;
};

// Errors: invalid_argument (the template's own words; a model without a template), unsupported.
Result<std::shared_ptr<const PreparedPrompt>> prepare_prompt(const LoadedModel& model,
                                                             const CompletionRequest& request);

}  // namespace drafthorse
