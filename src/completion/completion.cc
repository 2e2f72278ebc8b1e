#include "completion/completion.h"

#include <random>

#include <fmt/format.h>

#include "completion/answer.h"
#include "completion/prompt.h"

namespace drafthorse {
namespace {

class RunningCompletion final : public Completion {
 public:
  RunningCompletion(std::shared_ptr<LoadedModel> model, RequestId id, int prompt_tokens)
      : model_(std::move(model)), id_(id), prompt_tokens_(prompt_tokens) {}
  ~RunningCompletion() override { cancel(); }
  void cancel() override { model_->engine->cancel(id_); }
  int prompt_tokens() const override { return prompt_tokens_; }

 private:
  std::shared_ptr<LoadedModel> model_;
  RequestId id_;
  int prompt_tokens_;
};

// 53 bits, which survive JSON readers that keep numbers as doubles.
uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) >> 11;
}

SamplingParams merge(const SamplingParams& defaults, const SamplingFields& fields) {
  SamplingParams params = defaults;
  params.temperature = fields.temperature.value_or(params.temperature);
  params.top_p = fields.top_p.value_or(params.top_p);
  params.min_p = fields.min_p.value_or(params.min_p);
  params.top_k = fields.top_k.value_or(params.top_k);
  params.repetition_penalty = fields.repetition_penalty.value_or(params.repetition_penalty);
  params.presence_penalty = fields.presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = fields.frequency_penalty.value_or(params.frequency_penalty);
  params.seed = fields.seed ? *fields.seed : random_seed();
  params.logit_bias = fields.logit_bias;
  params.logprobs = fields.logprobs || fields.top_logprobs > 0;
  params.top_logprobs = fields.top_logprobs;
  return params;
}

}  // namespace

Result<std::unique_ptr<Completion>> start_completion(std::shared_ptr<LoadedModel> model,
                                                     const CompletionRequest& request, EventHandler handler) {
  if (request.max_tokens && *request.max_tokens < 1)
    return Error{ErrorKind::invalid_argument,
                 fmt::format("max_tokens must be at least 1, found {}", *request.max_tokens), "max_tokens"};
  auto prepared = prepare_prompt(*model, request);
  if (!prepared) return prepared.error();
  const PreparedPrompt& prompt = **prepared;
  if (request.echo && prompt.chat)
    return Error{ErrorKind::invalid_argument, "echo is for text completions, not for chat", "echo"};

  EngineRequest engine_request;
  engine_request.max_tokens = request.max_tokens.value_or(0);
  engine_request.sampling = merge(model->default_sampling, request.sampling);
  if (!request.ignore_eos) engine_request.stop_tokens = model->stop_tokens;
  engine_request.draft = request.draft;
  engine_request.max_draft = request.max_draft;

  AnswerOptions answer;
  answer.stop_tokens = engine_request.stop_tokens;
  answer.stop = request.stop;
  answer.reasoning = prompt.reasoning;
  answer.logprobs = engine_request.sampling.logprobs;
  answer.seed = engine_request.sampling.seed;
  if (request.echo) answer.echo = prompt.text;
  if (!prompt.chat && !prompt.tokens.empty()) answer.prompt_end = prompt.tokens.back();
  // The answer holds the tokenizer, not the model: the engine must not be destroyed from its own thread.
  auto sink = std::make_shared<AnswerSink>(model->tokenizer, std::move(answer), std::move(handler));

  const auto prompt_tokens = static_cast<int>(prompt.tokens.size());
  engine_request.prompt = prompt.tokens;
  auto id = model->engine->submit(std::move(engine_request), std::move(sink));
  if (!id) {
    Error error = id.error();
    if (prompt.chat && error.param == "prompt") error.param = "messages";
    return error;
  }
  return std::unique_ptr<Completion>(std::make_unique<RunningCompletion>(std::move(model), *id, prompt_tokens));
}

Result<CompletionRequest> prepare(const LoadedModel& model, CompletionRequest request) {
  auto prompt = prepare_prompt(model, request);
  if (!prompt) return prompt.error();
  request.prompt = *std::move(prompt);
  return request;
}

Result<std::vector<int32_t>> prompt_tokens(const LoadedModel& model, const CompletionRequest& request) {
  auto prompt = prepare_prompt(model, request);
  if (!prompt) return prompt.error();
  return (*prompt)->tokens;
}

}  // namespace drafthorse
