// generate: one prompt, one answer.

#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_setup.h"
#include "cli/whole_answer.h"

namespace drafthorse {
namespace {

namespace json = boost::json;

Result<std::string> read_prompt(const Options& options) {
  if (options.prompt) return *options.prompt;
  if (options.prompt_file.empty()) {
    if (::isatty(0) == 1) {
      return Error{ErrorKind::invalid_argument, "generate needs a prompt: give -p TEXT, -f FILE or text on stdin",
                   "prompt"};
    }
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  std::ifstream in(options.prompt_file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.is_open() || in.bad()) {
    return Error{ErrorKind::not_found, fmt::format("the prompt file {} cannot be read", options.prompt_file.string()),
                 "file"};
  }
  return text;
}

Result<CompletionRequest> make_request(const Options& options, const LoadedModel& model, const std::string& prompt) {
  CompletionRequest request;
  request.sampling = sampling_fields(options);
  request.max_tokens = options.max_tokens;
  request.stop = options.stop;
  request.draft = options.draft;
  request.max_draft = options.max_draft;
  request.ignore_eos = options.ignore_eos;
  if (options.raw || !model.chat_template) {
    if (!options.system.empty()) {
      std::string why = options.raw ? "--raw leaves no place for it" : "this model has no chat template";
      return Error{ErrorKind::invalid_argument, fmt::format("--system cannot be used: {}", why), "system"};
    }
    if (!options.raw) fmt::print(stderr, "this model has no chat template: it continues the prompt as it is\n");
    request.prompt = prompt;
  } else {
    ChatTemplateInput input;
    input.messages = chat_messages(options.system, prompt);
    request.prompt = std::move(input);
  }
  return request;
}

json::object drafter_json(const DrafterStats& stats) {
  return {{"proposed", stats.proposed}, {"accepted", stats.accepted}, {"steps", stats.steps}, {"parked", stats.parked}};
}

json::object answer_json(const WholeAnswer& answer, const LoadedModel& model) {
  const RequestStats& stats = answer.usage.stats;
  json::object speculation = drafter_json(stats.speculation), by_drafter;
  for (const auto& [name, drafter] : stats.by_drafter) {
    json::object entry = drafter_json(drafter);
    entry["tried_by_depth"] = json::value_from(drafter.tried_by_depth);
    entry["accepted_by_depth"] = json::value_from(drafter.accepted_by_depth);
    by_drafter[name] = std::move(entry);
  }
  speculation["by_drafter"] = by_drafter;
  return {{"model", model.id},
          {"text", answer.text},
          {"reasoning", answer.reasoning},
          {"tokens", json::value_from(answer.tokens)},
          {"finish_reason", answer.finish_reason},
          {"prompt_tokens", stats.prompt_tokens},
          {"completion_tokens", stats.completion_tokens},
          {"reasoning_tokens", answer.usage.reasoning_tokens},
          {"cached_tokens", stats.cached_tokens},
          {"seed", answer.usage.seed},
          {"speculation", speculation},
          {"timings",
           {{"queue", stats.queue_seconds},
            {"prefill", stats.prefill_seconds},
            {"decode", stats.decode_seconds},
            {"first_token", answer.usage.first_token_seconds},
            {"total", answer.usage.total_seconds}}}};
}

}  // namespace

Status generate_command(const Options& options) {
  Result<std::string> prompt = read_prompt(options);
  if (!prompt) return prompt.error();
  if (prompt->empty()) return Error{ErrorKind::invalid_argument, "the prompt is empty: give it some text", "prompt"};
  watch_interrupts();
  auto model = open_model(options);
  if (!model) return model.error();
  Result<CompletionRequest> request = make_request(options, **model, *prompt);
  if (!request) return request.error();
  const bool terminal = ::isatty(1) == 1;
  auto show = [&](const std::string& text, bool reasoning) {
    if (options.json || reasoning) return;
    const std::string shown = terminal ? terminal_text(text) : text;
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    std::fflush(stdout);
  };
  Result<WholeAnswer> result = wait_for_answer(*model, *request, show);
  if (!result) return result.error();
  if (options.json) {
    fmt::print("{}\n", json::serialize(answer_json(*result, **model)));
  } else if (!result->text.ends_with('\n')) {
    fmt::print("\n");
  }
  close_model(std::move(*model));
  if (result->finish_reason == "cancelled") return Error{ErrorKind::cancelled, "stopped", ""};
  return {};
}

}  // namespace drafthorse
