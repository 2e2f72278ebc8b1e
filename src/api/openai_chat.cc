#include "api/openai_chat.h"

#include <fmt/format.h>
#include <boost/json.hpp>

#include "api/chat_messages.h"
#include "api/common_fields.h"

namespace drafthorse {

namespace json = boost::json;

namespace {

void decode_max_completion_tokens(Fields& fields, CompletionRequest& out) {
  const auto tokens = fields.integer("max_completion_tokens", 1, INT32_MAX);
  if (!tokens) return;
  if (out.max_tokens && *out.max_tokens != *tokens)
    fields.fail("max_completion_tokens", "'max_tokens' and 'max_completion_tokens' differ; give one of them.");
  out.max_tokens = static_cast<int>(*tokens);
}

void decode_logprobs(Fields& fields, SamplingFields& out) {
  out.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top && !out.logprobs) fields.fail("top_logprobs", "'top_logprobs' needs 'logprobs' to be true.");
  out.top_logprobs = static_cast<int>(top.value_or(0));
}

// Tools may be listed only where the answer cannot be a call: with tool_choice "none".
void decode_tools(Fields& fields) {
  const json::value* choice = fields.any("tool_choice");
  const bool none = choice && choice->is_string() && choice->get_string() == "none";
  if (const json::array* tools = fields.array("tools"); tools && !tools->empty() && !none)
    fields.fail("tools", "Tool calls are not supported yet: leave 'tools' out or set 'tool_choice' to \"none\".",
                ErrorKind::unsupported);
  if (choice && !none && !(choice->is_string() && choice->get_string() == "auto"))
    fields.fail("tool_choice", "Tool calls are not supported yet: 'tool_choice' may only be \"none\" or \"auto\".",
                ErrorKind::unsupported);
  fields.ignore({"parallel_tool_calls"});
}

void decode_response_format(Fields& fields) {
  const json::object* format = fields.object("response_format");
  if (!format) return;
  const json::value* type = format->if_contains("type");
  if (!type || !type->is_string() || type->get_string() != "text")
    fields.fail("response_format",
                "'response_format' may only be {\"type\":\"text\"}: JSON output is not supported yet.",
                ErrorKind::unsupported);
}

void decode_modalities(Fields& fields) {
  const json::array* modalities = fields.array("modalities");
  if (!modalities) return;
  for (const json::value& item : *modalities)
    if (!item.is_string() || item.get_string() != "text")
      fields.fail("modalities", "'modalities' may only be [\"text\"].", ErrorKind::unsupported);
}

void decode_template_variables(Fields& fields, json::object& out) {
  if (const json::object* variables = fields.object("chat_template_kwargs")) out = *variables;
  if (const auto thinking = fields.boolean("enable_thinking")) out["enable_thinking"] = *thinking;
  for (const char* reserved : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
    if (out.contains(reserved))
      fields.fail("chat_template_kwargs", fmt::format("'chat_template_kwargs' may not set '{}'.", reserved));
}

}  // namespace

Result<ApiRequest> decode_chat(const json::value& body, const ServedModel& model) {
  if (!body.is_object())
    return Error{ErrorKind::invalid_argument,
                 "The request body must be a JSON object, but " + describe(body) + " was given.", ""};
  Fields fields(body.get_object());
  ApiRequest out;
  CompletionRequest completion;
  decode_common(fields, model, out, completion);
  decode_max_completion_tokens(fields, completion);
  decode_logprobs(fields, completion.sampling);
  decode_tools(fields);
  decode_response_format(fields);
  decode_modalities(fields);
  ChatTemplateInput input;
  decode_template_variables(fields, input.variables);
  const json::array* messages = fields.array("messages");
  if (!messages) fields.fail("messages", "'messages' is missing: send an array of messages.");
  if (Status status = fields.done(); !status) return status.error();
  auto decoded = decode_messages(*messages);
  if (!decoded) return decoded.error();
  input.messages = *std::move(decoded);
  completion.prompt = std::move(input);
  out.prompts.push_back(std::move(completion));
  return out;
}

}  // namespace drafthorse
