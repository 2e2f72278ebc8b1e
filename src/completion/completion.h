#pragma once
// One request from messages to events: the only place where text and engine meet.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/result.h"
#include "engine/engine.h"
#include "network/network.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace drafthorse {

class LookAlikes;       // completion/look_alikes.h
struct PreparedPrompt;  // completion/prompt.h

// Everything a served model is, beside its engine.
struct LoadedModel {
  std::string id;                    // what /v1/models and `model` call it
  std::vector<std::string> aliases;  // other names that requests may use
  Network network;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null: chat is refused by name, completions work
  std::shared_ptr<const ChatTemplate> tool_template;  // used when tools are given; null: chat_template serves both
  std::shared_ptr<const LookAlikes> look_alikes;      // what user text must not be taken for
  std::vector<int32_t> stop_tokens;
  SamplingParams default_sampling;  // request field > server flag > generation_config > family > neutral
  std::unique_ptr<Engine> engine;
  int64_t created = 0;  // unix seconds
};

struct LoadOptions {
  std::string path;  // file or folder on disk (names are resolved by cli/hub)
  std::string mtp;   // file or folder with the drafting head; empty: in the model or beside it
  std::string id;    // empty: from the file or folder name
  BackendOptions backend;
  EngineOptions engine;
  uint64_t memory = 0;  // budget in bytes; 0: a share of what the machine has
  // Server-wide defaults.
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int> top_k;
};
Result<std::shared_ptr<LoadedModel>> load(const LoadOptions& options, const Progress& progress = {});

// Sampling fields that were given; the rest come from LoadedModel::default_sampling.
struct SamplingFields {
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int> top_k;
  std::optional<uint64_t> seed;  // absent: a random one, reported back
  std::vector<std::pair<int32_t, float>> logit_bias;
  bool logprobs = false;
  int top_logprobs = 0;
};

struct CompletionRequest {
  // Chat messages, plain text, token ids, or what prepare() made of one of these.
  std::variant<ChatTemplateInput, std::string, std::vector<int32_t>, std::shared_ptr<const PreparedPrompt>> prompt;
  SamplingFields sampling;
  std::optional<int> max_tokens;
  std::vector<std::string> stop;
  std::string draft = "auto";
  int max_draft = 0;
  bool ignore_eos = false;
  bool parse_special = false;  // plain text prompts: "<|fim_prefix|>" and the like are tokens
  bool echo = false;           // completions only: the prompt's text comes first
};

struct Usage {
  RequestStats stats;        // completion_tokens: up to the token that completed a stop string
  int reasoning_tokens = 0;  // of the answer's tokens, those inside the reasoning block and its markers
  uint64_t seed = 0;         // the seed that was used
  double first_token_seconds = 0, total_seconds = 0;  // from submission
};

// Every byte of the answer belongs to exactly one event.
struct TokenLogprob {
  int32_t token;
  std::string bytes;
  float logprob;
  std::vector<std::pair<std::string, float>> top;
};
struct ReasoningDelta {
  std::string text;
};
struct TextDelta {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<TokenLogprob> logprobs;
};
struct ToolCallBegin {
  int index;
  std::string id, name;
};
struct ToolCallArguments {
  int index;
  std::string fragment;
};
struct ToolCallEnd {
  int index;
  bool complete;
};
struct Finish {
  std::string reason;  // stop | length | cancelled | error
  Usage usage;
  std::optional<Error> error;
};
using Event = std::variant<ReasoningDelta, TextDelta, ToolCallBegin, ToolCallArguments, ToolCallEnd, Finish>;

// Called on the engine thread, in order; Finish exactly once and last. It must not own the LoadedModel: the engine
// cannot be destroyed from its own thread.
using EventHandler = std::function<void(Event)>;

// A running completion; destroying it (or cancel) frees its sequence at once. Finish(cancelled) still arrives.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual void cancel() = 0;
  virtual int prompt_tokens() const = 0;
};

// Renders, tokenises, submits. Errors: invalid_argument (template's own words), context_length (with the counts), busy.
Result<std::unique_ptr<Completion>> start_completion(std::shared_ptr<LoadedModel> model,
                                                     const CompletionRequest& request, EventHandler handler);
// The same request with its prompt rendered and tokenised, for several completions of one prompt: start_completion
// then only submits. Errors: those of rendering.
Result<CompletionRequest> prepare(const LoadedModel& model, CompletionRequest request);
// The prompt's ids as start_completion would submit them.
Result<std::vector<int32_t>> prompt_tokens(const LoadedModel& model, const CompletionRequest& request);

}  // namespace drafthorse
