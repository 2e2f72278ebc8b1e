#pragma once
// A decoded request, the same for every wire format.

#include <cstdint>
#include <string>
#include <vector>

#include "completion/completion.h"

namespace drafthorse {

struct ApiRequest {
  std::vector<CompletionRequest> prompts;  // one for chat, one or more for text completions
  int n = 1;                               // choices for each prompt; choice i samples with seed + i
  bool stream = false;
  bool include_usage = false;  // a stream ends with a chunk that carries usage
  bool timings = true;
  int choices() const { return static_cast<int>(prompts.size()) * n; }
};

// What encoders must know about the answer, beside its events.
struct AnswerInfo {
  std::string id;       // "chatcmpl-…"
  std::string model;    // the served id
  int64_t created = 0;  // unix seconds
  int choices = 1;
  int n = 1;  // choices / n prompts
  bool include_usage = false;
  bool timings = true;
  bool logprobs = false;
};

}  // namespace drafthorse
