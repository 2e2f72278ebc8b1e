// run: a chat in the terminal.

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/model_setup.h"

namespace drafthorse {
namespace {

// Dim text where the terminal can, plain text elsewhere.
struct Style {
  bool color = false;
  std::string dim(const std::string& text) const { return color ? "\x1b[2m" + text + "\x1b[0m" : text; }
};

void show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// One message: a line, lines joined by a backslash, or a text between two """.
LineEnd read_message(LineEditor& editor, std::string& message) {
  LineEnd end = editor.read("> ", message);
  if (end != LineEnd::line) return end;
  constexpr std::string_view kFence = "\"\"\"";
  std::string next;
  if (message.starts_with(kFence)) {
    message.erase(0, kFence.size());
    while (!message.ends_with(kFence)) {
      end = editor.read(". ", next);
      if (end == LineEnd::interrupt) return end;
      if (end == LineEnd::end_of_input) return LineEnd::line;
      message += (message.empty() ? "" : "\n") + next;
    }
    message.resize(message.size() - kFence.size());
    return LineEnd::line;
  }
  while (message.ends_with('\\')) {
    message.back() = '\n';
    end = editor.read(". ", next);
    if (end == LineEnd::interrupt) return end;
    message += next;
    if (end == LineEnd::end_of_input) break;
  }
  return LineEnd::line;
}

// Answers the last message. An error takes the message back, so that the conversation can go on.
void answer_message(Conversation& conversation, const Style& style, bool terminal) {
  bool thinking = false, newline = true;
  clear_interrupt();
  auto on_text = [&](const std::string& text, bool reasoning) {
    if (text.empty()) return;
    if (style.color && reasoning != thinking) show(reasoning ? "\x1b[2m" : "\x1b[0m\n");
    if (reasoning && !terminal) return;
    thinking = reasoning;
    newline = text.ends_with('\n');
    show(terminal ? terminal_text(text) : text);
  };
  Result<WholeAnswer> result = wait_for_answer(conversation.model, conversation.request(), on_text);
  if (style.color && thinking) show("\x1b[0m");
  clear_interrupt();
  if (!result) {
    conversation.messages.pop_back();
    bool full = result.error().kind == ErrorKind::context_length;
    fmt::print(stderr, "{}{}\n", result.error().message, full ? "; /clear starts anew" : "");
    return;
  }
  if (!newline) show("\n");
  conversation.messages.push_back({{"role", "assistant"}, {"content", result->text}});
  conversation.usages.push_back(result->usage);
  if (!terminal) return;
  std::string note = describe_usage(result->usage);
  if (result->finish_reason == "cancelled") note = "stopped; " + note;
  if (result->finish_reason == "length") note = "cut off: no more tokens allowed; " + note;
  show(style.dim(note) + "\n\n");
}

// Ctrl-C at the prompt: clears the line, and leaves when it comes twice in a row at an empty one.
bool leaves(LineEnd end, const std::string& message, int& interrupts, const Style& style) {
  if (end == LineEnd::end_of_input) return true;
  interrupts = end == LineEnd::interrupt && message.empty() ? interrupts + 1 : 0;
  if (interrupts == 1) show(style.dim("Ctrl-C again, Ctrl-D or /exit leaves") + "\n");
  return interrupts > 1;
}

}  // namespace

Status run_command(const Options& options) {
  watch_interrupts();
  auto model = open_model(options);
  if (!model) return model.error();
  if (!(*model)->chat_template) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{} has no chat template, so it cannot chat; use drafthorse generate --raw", (*model)->id),
                 "model"};
  }
  Conversation conversation{*model, options, options.system, {}, {}};
  LineEditor editor(options.environment.state / "history");
  bool terminal = editor.terminal();
  Style style{terminal && !options.environment.no_color && options.environment.term != "dumb"};
  auto say = [&](const std::string& text) { show(style.dim(text) + "\n"); };
  if (terminal)
    say(fmt::format("{}, {}. /help for help, Ctrl-D to leave.\n", (*model)->id,
                    (*model)->engine->model().description()));
  clear_interrupt();
  int interrupts = 0;
  for (std::string message;;) {
    LineEnd end = read_message(editor, message);
    clear_interrupt();
    if (!terminal && end == LineEnd::interrupt) return Error{ErrorKind::cancelled, "stopped", ""};
    if (leaves(end, message, interrupts, style)) break;
    if (end == LineEnd::interrupt || message.find_first_not_of(" \t\r\n") == message.npos) continue;
    editor.remember(message);
    if (message.starts_with('/') && message.find('\n') == message.npos) {
      if (run_chat_command(message, conversation, say) == ChatAction::leave) break;
      continue;
    }
    conversation.messages.push_back({{"role", "user"}, {"content", message}});
    answer_message(conversation, style, terminal);
  }
  conversation.model.reset();
  close_model(std::move(*model));
  return {};
}

}  // namespace drafthorse
