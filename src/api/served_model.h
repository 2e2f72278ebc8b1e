#pragma once
// What the API needs of a model: its names, its numbers and a way to start a completion. Production fills it from
// a LoadedModel (server/serve.cc); tests put a scripted source of events behind `start`.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "completion/completion.h"
#include "core/result.h"

namespace drafthorse {

// start_completion with the model bound: same errors, same rules for the handler.
using StartCompletion = std::function<Result<std::unique_ptr<Completion>>(const CompletionRequest&, EventHandler)>;

struct ServedModel {
  std::string id;
  std::vector<std::string> aliases;
  int64_t created = 0;      // unix seconds
  int context = 0;          // tokens of prompt and answer together
  int vocab = 0;            // token ids are in [0, vocab)
  std::string description;  // "cpu avx2, 2 threads"
  StartCompletion start;
  // Renders and tokenises a request that several completions share; empty: each start does.
  std::function<Result<CompletionRequest>(CompletionRequest)> prepare;
  std::function<EngineStats()> engine_stats;        // may be empty
  std::function<std::vector<MemoryPart>()> memory;  // may be empty
};

// True for the model's id, its aliases, "default" and the empty name.
bool answers_to(const ServedModel& model, std::string_view name);

// not_found with param "model" and the names that are served.
Error unknown_model(const ServedModel& model, std::string_view name);

}  // namespace drafthorse
