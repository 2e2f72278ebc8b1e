#pragma once
// The fields that chat and text completions share: sampling, length, stop, streaming, drafting.

#include "api/json_fields.h"
#include "api/request.h"
#include "api/served_model.h"

namespace drafthorse {

inline constexpr int kMaxChoices = 8;   // `n`
inline constexpr int kMaxPrompts = 64;  // prompts x n of one text completion
inline constexpr int kMaxStops = 16;
inline constexpr int kMaxTopLogprobs = 20;

// Checks `model`, then reads the shared fields into `out` and `completion` (its prompt is left alone).
// `max_tokens` is read here; the caller reads logprobs, whose shape differs.
void decode_common(Fields& fields, const ServedModel& model, ApiRequest& out, CompletionRequest& completion);

}  // namespace drafthorse
