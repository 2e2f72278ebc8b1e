#include "api/openai_completions.h"

#include <limits>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "api/common_fields.h"

namespace drafthorse {

namespace json = boost::json;

namespace {

using Prompt = decltype(CompletionRequest::prompt);

constexpr std::string_view kPromptForms =
    "a string, an array of strings, an array of token ids or an array of such arrays";

bool is_ids(const json::array& items) {
  if (items.empty()) return false;
  for (const json::value& item : items)
    if (!item.is_int64() && !item.is_uint64()) return false;
  return true;
}

void decode_ids(Fields& fields, const json::array& items, int vocab, std::vector<Prompt>& out) {
  const int64_t limit = vocab > 0 ? vocab : std::numeric_limits<int32_t>::max();
  std::vector<int32_t> ids;
  ids.reserve(items.size());
  for (const json::value& item : items) {
    if (item.is_uint64() || item.get_int64() < 0 || item.get_int64() >= limit)
      return fields.fail("prompt",
                         fmt::format("'prompt' holds {}, but token ids go from 0 to {}.", describe(item), limit - 1));
    ids.push_back(static_cast<int32_t>(item.get_int64()));
  }
  out.push_back(std::move(ids));
}

std::vector<Prompt> decode_prompt(Fields& fields, int vocab) {
  std::vector<Prompt> out;
  const json::value* value = fields.any("prompt");
  const auto text = [&](const json::string& s) { out.push_back(std::string(s.data(), s.size())); };
  const auto wrong = [&](const json::value& found) {
    fields.fail("prompt", fmt::format("'prompt' must be {}, but {} was given.", kPromptForms, describe(found)));
  };
  if (!value) {
    fields.fail("prompt", fmt::format("'prompt' is missing: send {}.", kPromptForms));
  } else if (value->is_string()) {
    text(value->get_string());
  } else if (!value->is_array() || value->get_array().empty()) {
    wrong(*value);
  } else if (is_ids(value->get_array())) {
    decode_ids(fields, value->get_array(), vocab, out);
  } else {
    for (const json::value& item : value->get_array()) {
      if (item.is_string()) text(item.get_string());
      else if (item.is_array() && is_ids(item.get_array())) decode_ids(fields, item.get_array(), vocab, out);
      else wrong(item);
    }
  }
  return out;
}

void decode_completion_only(Fields& fields, int n, CompletionRequest& out) {
  out.echo = fields.boolean("echo").value_or(false);
  if (const auto logprobs = fields.integer("logprobs", 0, kMaxTopLogprobs)) {
    out.sampling.logprobs = true;
    out.sampling.top_logprobs = static_cast<int>(*logprobs);
    if (out.echo)
      fields.fail("logprobs", "'logprobs' with 'echo' is not supported: probabilities of the prompt are not computed.",
                  ErrorKind::unsupported);
  }
  if (const json::value* suffix = fields.any("suffix");
      suffix && !(suffix->is_string() && suffix->get_string().empty()))
    fields.fail("suffix", "'suffix' is not supported: put the infill tokens of the model into 'prompt'.",
                ErrorKind::unsupported);
  if (const auto best = fields.integer("best_of", 1, std::numeric_limits<int32_t>::max()); best && *best != n)
    fields.fail("best_of", "'best_of' is not supported: it may only equal 'n'.", ErrorKind::unsupported);
}

}  // namespace

Result<ApiRequest> decode_completions(const json::value& body, const ServedModel& model) {
  if (!body.is_object())
    return Error{ErrorKind::invalid_argument,
                 "The request body must be a JSON object, but " + describe(body) + " was given.", ""};
  Fields fields(body.get_object());
  ApiRequest out;
  CompletionRequest completion;
  decode_common(fields, model, out, completion);
  decode_completion_only(fields, out.n, completion);
  std::vector<Prompt> prompts = decode_prompt(fields, model.vocab);
  if (prompts.size() * static_cast<size_t>(out.n) > kMaxPrompts)
    fields.fail("prompt", fmt::format("'prompt' times 'n' asks for {} completions; at most {} are made at once.",
                                      prompts.size() * static_cast<size_t>(out.n), kMaxPrompts));
  if (Status status = fields.done(); !status) return status.error();
  for (Prompt& prompt : prompts) {
    completion.prompt = std::move(prompt);
    out.prompts.push_back(completion);
  }
  return out;
}

}  // namespace drafthorse
