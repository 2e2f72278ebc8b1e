#pragma once
// One answer, from a request to its last event, for commands that wait for it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "completion/completion.h"
#include "core/result.h"

namespace drafthorse {

struct WholeAnswer {
  std::string text;  // without reasoning
  std::string reasoning;
  std::vector<int32_t> tokens;  // of text
  std::string finish_reason;    // stop | length | cancelled | error
  Usage usage;
  int prompt_tokens = 0;
};

// Runs the request to its end. on_text is called on this thread as text arrives; `reasoning` says which kind it is.
// Ctrl-C (interrupt.h) cancels it: the answer so far is returned with finish_reason cancelled.
// Errors: those of start_completion, and what ended the request with finish_reason error.
Result<WholeAnswer> wait_for_answer(std::shared_ptr<LoadedModel> model, const CompletionRequest& request,
                                    const std::function<void(const std::string& text, bool reasoning)>& on_text);

// A chat request of system (may be empty) and user message.
boost::json::array chat_messages(const std::string& system, const std::string& user);

}  // namespace drafthorse
