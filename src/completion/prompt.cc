#include "completion/prompt.h"

#include <ctime>

#include <fmt/format.h>

#include "completion/look_alikes.h"

namespace drafthorse {
namespace {

std::string token_text(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? std::string(tokenizer.token_bytes(*id)) : std::string();
}

Result<PreparedPrompt> prepare_chat(const LoadedModel& model, ChatTemplateInput input) {
  if (!model.chat_template)
    return Error{ErrorKind::invalid_argument,
                 fmt::format("model {} has no chat template; use the text completions endpoint", model.id), "messages"};
  if (input.bos_token.empty()) input.bos_token = token_text(*model.tokenizer, model.tokenizer->bos());
  if (input.eos_token.empty()) input.eos_token = token_text(*model.tokenizer, model.tokenizer->eos());
  if (input.now == 0) input.now = std::time(nullptr);
  const auto& chosen = !input.tools.empty() && model.tool_template ? model.tool_template : model.chat_template;
  auto rendered = render_protected(*chosen, input, *model.look_alikes);
  if (!rendered) return rendered.error();
  PreparedPrompt prompt;
  prompt.chat = true;
  const bool has_bos = !input.bos_token.empty() && rendered->text.starts_with(input.bos_token);
  prompt.tokens = encode_rendered(*model.tokenizer, *model.look_alikes, *rendered, !has_bos);
  prompt.reasoning = reasoning_start(rendered->text, chosen->source());
  return prompt;
}

}  // namespace

Result<std::shared_ptr<const PreparedPrompt>> prepare_prompt(const LoadedModel& model,
                                                             const CompletionRequest& request) {
  if (const auto* ready = std::get_if<std::shared_ptr<const PreparedPrompt>>(&request.prompt)) return *ready;
  const auto share = [](PreparedPrompt prompt) { return std::make_shared<const PreparedPrompt>(std::move(prompt)); };
  if (const auto* chat = std::get_if<ChatTemplateInput>(&request.prompt)) {
    auto prompt = prepare_chat(model, *chat);
    if (!prompt) return prompt.error();
    return share(*std::move(prompt));
  }
  PreparedPrompt prompt;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    prompt.text = *text;
    prompt.tokens = model.tokenizer->encode(*text, {.parse_special = request.parse_special, .add_bos = true});
  } else {
    prompt.tokens = std::get<std::vector<int32_t>>(request.prompt);
    if (request.echo) prompt.text = model.tokenizer->decode(prompt.tokens, true);
  }
  return share(std::move(prompt));
}

}  // namespace drafthorse
