#pragma once
// Small pieces that the OpenAI encoders share.

#include <string>
#include <string_view>

#include "api/request.h"

namespace drafthorse {

// "data: …\n\n"; `data` holds no line end (JSON escapes them).
std::string sse_data(std::string_view data);

// {"id":…,"object":…,"created":…,"model":…,"system_fingerprint":…,"choices":  (the value and the brace follow).
std::string answer_head(const AnswerInfo& info, std::string_view object);

// A finite JSON number: -inf (a token that a filter or bias ruled out) becomes -9999.
std::string logprob_json(float logprob);

}  // namespace drafthorse
