#pragma once
// A conversation in the terminal: messages, settings, and what its slash commands do.

#include <memory>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "cli/options.h"
#include "cli/whole_answer.h"

namespace drafthorse {

struct Conversation {
  std::shared_ptr<LoadedModel> model;
  Options options;  // sampling and drafting; /set changes them
  std::string system;
  boost::json::array messages;  // without the system message
  std::vector<Usage> usages;    // of each answer, for /stats

  // The request for the messages so far.
  CompletionRequest request() const;
};

// What a slash command wants done next.
enum class ChatAction { go_on, leave };

// Runs "/name argument". `say` prints a line. Unknown commands are answered with what there is.
ChatAction run_chat_command(const std::string& line, Conversation& conversation,
                            const std::function<void(const std::string&)>& say);

// Text of a model as a terminal may have it: control characters but line end and tab become U+FFFD (a carriage return goes),
// so that an answer cannot move the cursor, set titles or write to the clipboard.
std::string terminal_text(std::string_view text);

// "52 tokens, 191 tokens/s, first after 0.05 s, 12 of 20 drafted tokens accepted"
std::string describe_usage(const Usage& usage);

}  // namespace drafthorse
