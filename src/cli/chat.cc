#include "cli/chat.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include "cli/decimal.h"
#include "cli/model_name.h"
#include "cli/model_setup.h"

namespace drafthorse {
namespace {

using Say = std::function<void(const std::string&)>;

constexpr const char* kHelp =
    "  /help               this text\n"
    "  /system TEXT        set the system message (none: /system alone)\n"
    "  /set                show the settings; /set NAME VALUE changes one, /set NAME goes back to the model's own:\n"
    "                      temperature, top_p, top_k, min_p, seed, max_tokens, draft (auto, off, lookup, mtp)\n"
    "  /stats              tokens and speed of this conversation\n"
    "  /clear              forget the conversation\n"
    "  /save FILE          write it as JSON\n"
    "  /exit               leave (so do Ctrl-D and, at an empty prompt, Ctrl-C twice)\n"
    "A line that ends in \\ goes on in the next; \"\"\" begins and ends a text of several lines.\n"
    "Ctrl-C while the model answers stops the answer.";

std::from_chars_result parse(const char* first, const char* last, float& value) {
  double wide = value;
  const std::from_chars_result result = parse_decimal(first, last, wide);
  value = static_cast<float>(wide);
  return result;
}
template <class T>
std::from_chars_result parse(const char* first, const char* last, T& value) {
  return std::from_chars(first, last, value);
}

template <class T>
bool parse_number(const std::string& text, std::optional<T>& value, T low, T high) {
  T number{};
  auto [end, code] = parse(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || !(number >= low && number <= high)) return false;
  value = number;
  return true;
}

template <class T>
std::string shown(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "the model's own";
}

std::string settings(const Options& options) {
  return fmt::format("  temperature {}\n  top_p {}\n  top_k {}\n  min_p {}\n  seed {}\n  max_tokens {}\n  draft {}",
                     shown(options.temperature), shown(options.top_p), shown(options.top_k), shown(options.min_p),
                     options.seed ? fmt::format("{}", *options.seed) : "a new one each time",
                     options.max_tokens ? fmt::format("{}", *options.max_tokens) : "until the context is full",
                     options.draft);
}

// False when the name or the value is not understood.
bool set_option(Options& options, const std::string& name, const std::string& value) {
  auto number = [&]<class T>(std::optional<T>& target, T low, T high) {
    if (value.empty()) target.reset();
    return value.empty() || parse_number(value, target, low, high);
  };
  if (name == "temperature") return number(options.temperature, 0.0f, 100.0f);
  if (name == "top_p") return number(options.top_p, 0.0f, 1.0f);
  if (name == "min_p") return number(options.min_p, 0.0f, 1.0f);
  if (name == "top_k") return number(options.top_k, 0, 1 << 30);
  if (name == "max_tokens") return number(options.max_tokens, 1, 1 << 30);
  if (name == "seed") return number(options.seed, uint64_t{0}, ~uint64_t{0});
  if (name != "draft") return false;
  std::string draft = value.empty() ? "auto" : value;
  if (!is_draft_mode(draft)) return false;
  options.draft = draft;
  return true;
}

void set_command(Conversation& conversation, const std::string& argument, const Say& say) {
  if (argument.empty()) return say(settings(conversation.options));
  const size_t space = std::min(argument.find_first_of(" ="), argument.size());
  const std::string name = argument.substr(0, space);
  std::string value = argument.substr(std::min(argument.find_first_not_of(" =", space), argument.size()));
  value.resize(value.find_last_not_of(' ') + 1);
  if (!set_option(conversation.options, name, value))
    say(fmt::format("{} {} is not understood; /help names the settings and /set shows them", name, value));
}

void stats_command(const Conversation& conversation, const Say& say) {
  if (conversation.usages.empty()) return say("no answers yet");
  RequestStats total;
  for (const Usage& usage : conversation.usages) {
    total.completion_tokens += usage.stats.completion_tokens;
    total.decode_seconds += usage.stats.decode_seconds;
    total.speculation.proposed += usage.stats.speculation.proposed;
    total.speculation.accepted += usage.stats.speculation.accepted;
    total.speculation.steps += usage.stats.speculation.steps;
  }
  const RequestStats& last = conversation.usages.back().stats;
  say(fmt::format("  last answer   {}", describe_usage(conversation.usages.back())));
  say(fmt::format("  its prompt    {} tokens, {} of them kept from before, {:.2f} s", last.prompt_tokens,
                  last.cached_tokens, last.prefill_seconds));
  say(fmt::format("  conversation  {} answers, {} tokens, {:.1f} s of decoding, {} of {} drafted tokens accepted",
                  conversation.usages.size(), total.completion_tokens, total.decode_seconds, total.speculation.accepted,
                  total.speculation.proposed));
  int context = conversation.model->engine->model().context();
  say(fmt::format("  context       {} of {} positions", last.prompt_tokens + last.completion_tokens, context));
  say(fmt::format("  machine       {}", conversation.model->engine->model().description()));
}

void save_command(const Conversation& conversation, const std::string& file, const Say& say) {
  if (file.empty()) return say("/save needs a file name");
  boost::json::array messages;
  if (!conversation.system.empty()) messages.push_back({{"role", "system"}, {"content", conversation.system}});
  messages.insert(messages.end(), conversation.messages.begin(), conversation.messages.end());
  std::ofstream out(file);
  out << boost::json::serialize(boost::json::object{{"model", conversation.model->id}, {"messages", messages}}) << '\n';
  out.close();
  say(out ? fmt::format("saved to {}", file) : fmt::format("{} cannot be written", file));
}

}  // namespace

CompletionRequest Conversation::request() const {
  ChatTemplateInput input;
  if (!system.empty()) input.messages.push_back({{"role", "system"}, {"content", system}});
  input.messages.insert(input.messages.end(), messages.begin(), messages.end());
  CompletionRequest request;
  request.prompt = std::move(input);
  request.sampling = sampling_fields(options);
  request.max_tokens = options.max_tokens;
  request.stop = options.stop;
  request.draft = options.draft;
  request.max_draft = options.max_draft;
  return request;
}

ChatAction run_chat_command(const std::string& line, Conversation& conversation, const Say& say) {
  size_t space = line.find(' ');
  std::string name = line.substr(0, space);
  std::string argument =
      space == line.npos ? "" : line.substr(std::min(line.find_first_not_of(' ', space), line.size()));
  if (name == "/exit" || name == "/quit" || name == "/bye") return ChatAction::leave;
  if (name == "/help" || name == "/?") {
    say(kHelp);
  } else if (name == "/system") {
    conversation.system = argument;
    say(argument.empty() ? "no system message" : "system message set");
  } else if (name == "/set") {
    set_command(conversation, argument, say);
  } else if (name == "/stats") {
    stats_command(conversation, say);
  } else if (name == "/clear") {
    conversation.messages.clear();
    conversation.usages.clear();
    say("forgotten");
  } else if (name == "/save") {
    save_command(conversation, argument, say);
  } else {
    std::array<std::string, 7> known = {"/help", "/system", "/set", "/stats", "/clear", "/save", "/exit"};
    std::optional<std::string> near = nearest(name, known);
    say(fmt::format("{} is no command; {}/help names them all", name,
                    near ? fmt::format("did you mean {}? ", *near) : ""));
  }
  return ChatAction::go_on;
}

std::string terminal_text(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\r') continue;
    // U+0080 to U+009F are control characters too; in UTF-8 C2 80 to C2 9F.
    const bool c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (c1 || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) out += "\xEF\xBF\xBD";
    else out += static_cast<char>(c);
  }
  return out;
}

std::string describe_usage(const Usage& usage) {
  const RequestStats& stats = usage.stats;
  std::string text = fmt::format("{} tokens", stats.completion_tokens);
  if (stats.decode_seconds > 0 && stats.completion_tokens > 1)
    text += fmt::format(", {:.0f} tokens/s", (stats.completion_tokens - 1) / stats.decode_seconds);
  text += fmt::format(", first after {:.2f} s", usage.first_token_seconds);
  if (stats.speculation.proposed > 0)
    text += fmt::format(", {} of {} drafted tokens accepted", stats.speculation.accepted, stats.speculation.proposed);
  return text;
}

}  // namespace drafthorse
