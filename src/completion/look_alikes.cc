#include "completion/look_alikes.h"

#include <algorithm>

#include <boost/json/value.hpp>

namespace drafthorse {
namespace {

constexpr uint32_t kFirstPrivate = 0xF0000, kLastPrivate = 0x10FFFD;  // planes 15 and 16

bool only_white_space(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r')) continue;
    if (text.substr(i, 3) == "\xE2\x96\x81") {  // ▁, the space of SentencePiece
      i += 2;
      continue;
    }
    return false;
  }
  return true;
}

// Bytes of the UTF-8 character at text[at] (1 for a stray byte).
size_t character_length(std::string_view text, size_t at) {
  const auto c = static_cast<unsigned char>(text[at]);
  const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
  return std::min(length, text.size() - at);
}

std::string to_utf8(uint32_t c) {
  return {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
          static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
}

// Calls visit(string) for every string and object key below `value`.
template <class Visit>
void each_text(const boost::json::value& value, Visit&& visit) {
  if (const auto* text = value.if_string()) {
    visit(std::string_view(text->data(), text->size()));
  } else if (const auto* array = value.if_array()) {
    for (const auto& element : *array) each_text(element, visit);
  } else if (const auto* object = value.if_object()) {
    for (const auto& [key, element] : *object) {
      visit(std::string_view(key.data(), key.size()));
      each_text(element, visit);
    }
  }
}

template <class Visit>
void each_text(const ChatTemplateInput& input, Visit&& visit) {
  for (const auto& message : input.messages) each_text(message, visit);
  for (const auto& tool : input.tools) each_text(tool, visit);
  for (const auto& [key, element] : input.variables) {
    visit(std::string_view(key.data(), key.size()));
    each_text(element, visit);
  }
}

// A private-use character that the input does not contain.
std::optional<std::string> unused_mark(const ChatTemplateInput& input, std::string_view source) {
  std::vector<bool> used(kLastPrivate - kFirstPrivate + 1, false);
  const auto note = [&](std::string_view text) {
    for (size_t i = 0; i + 3 < text.size(); ++i) {
      const auto byte = [&](size_t k) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i + k])); };
      if (byte(0) < 0xF3) continue;
      const uint32_t c = (byte(0) & 7) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
      if (c >= kFirstPrivate && c <= kLastPrivate) used[c - kFirstPrivate] = true;
    }
  };
  each_text(input, note);
  note(source);
  for (uint32_t c = kFirstPrivate; c <= kLastPrivate; ++c)
    if (!used[c - kFirstPrivate] && (c & 0xFFFF) < 0xFFFE) return to_utf8(c);
  return std::nullopt;
}

// What is put into which texts.
struct Marking {
  const LookAlikes& look_alikes;
  std::string mark;
  bool control_only_in_answers = false;
};

std::string marked(std::string_view text, const Marking& marking, bool control_only) {
  std::string out;
  size_t from = 0;
  for (size_t place : marking.look_alikes.places(text, control_only)) {
    out.append(text.substr(from, place - from)).append(marking.mark);
    from = place;
  }
  return out.append(text.substr(from));
}

boost::json::value marked(const boost::json::value& value, const Marking& marking, bool control_only) {
  if (const auto* text = value.if_string())
    return boost::json::value(marked(std::string_view(text->data(), text->size()), marking, control_only));
  if (const auto* array = value.if_array()) {
    boost::json::array out;
    for (const auto& element : *array) out.push_back(marked(element, marking, control_only));
    return out;
  }
  if (const auto* object = value.if_object()) {
    boost::json::object out;
    for (const auto& [key, element] : *object)
      out.emplace(marked(std::string_view(key.data(), key.size()), marking, control_only),
                  marked(element, marking, control_only));
    return out;
  }
  return value;
}

bool is_answer(const boost::json::value& message) {
  const auto* object = message.if_object();
  const auto* role = object ? object->if_contains("role") : nullptr;
  return role && role->is_string() && role->get_string() == "assistant";
}

ChatTemplateInput marked(const ChatTemplateInput& input, const Marking& marking) {
  ChatTemplateInput out = input;
  for (auto& message : out.messages)
    message = marked(message, marking, marking.control_only_in_answers && is_answer(message));
  for (auto& tool : out.tools) tool = marked(tool, marking, false);
  out.variables = marked(boost::json::value(input.variables), marking, false).get_object();
  return out;
}

// Takes the marks out and remembers where they were.
RenderedPrompt without_marks(const std::string& text, const std::string& mark) {
  RenderedPrompt out;
  for (size_t from = 0;;) {
    const size_t found = text.find(mark, from);
    out.text.append(text, from, found == std::string::npos ? found : found - from);
    if (found == std::string::npos) return out;
    out.breaks.push_back(out.text.size());
    from = found + mark.size();
  }
}

}  // namespace

void LookAlikes::Set::add(std::string_view token) {
  tokens.insert(token);
  starts[static_cast<unsigned char>(token[0])] = true;
  lengths.push_back(token.size());
  for (size_t n = 1; n < token.size(); ++n) beginnings.insert(token.substr(0, n));
  longest_beginning = std::max(longest_beginning, token.size() - 1);
}

LookAlikes::LookAlikes(const Tokenizer& tokenizer) {
  for (auto token : tokenizer.added_tokens())
    if (!token.empty() && !only_white_space(token)) texts_.emplace_back(token);
  for (const std::string& text : texts_) {
    all_.add(text);
    const auto id = tokenizer.token_id(text);
    if (id && tokenizer.is_special(*id)) control_.add(text);
  }
  for (Set* set : {&all_, &control_}) {
    std::sort(set->lengths.begin(), set->lengths.end(), std::greater<>());
    set->lengths.erase(std::unique(set->lengths.begin(), set->lengths.end()), set->lengths.end());
  }
}

size_t LookAlikes::longest(const Set& set, std::string_view text, size_t at, const std::vector<size_t>& breaks) {
  if (!set.starts[static_cast<unsigned char>(text[at])]) return 0;
  const auto next = std::upper_bound(breaks.begin(), breaks.end(), at);
  const size_t most = (next == breaks.end() ? text.size() : *next) - at;
  for (size_t length : set.lengths)
    if (length <= most && set.tokens.contains(text.substr(at, length))) return length;
  return 0;
}

size_t LookAlikes::match(std::string_view text, size_t at, const std::vector<size_t>& breaks) const {
  return longest(all_, text, at, breaks);
}

std::vector<size_t> LookAlikes::places(std::string_view text, bool control_only) const {
  const Set& set = control_only ? control_ : all_;
  std::vector<size_t> out;
  // Every start is marked, also inside a longer one: what remains of a broken token may hold another.
  for (size_t at = 0; at < text.size(); ++at)
    if (longest(set, text, at, {}) > 0) out.push_back(at + character_length(text, at));
  // An end that something appended could complete.
  const size_t first = text.size() - std::min(text.size(), set.longest_beginning);
  for (size_t at = first; at < text.size(); ++at)
    if (set.beginnings.contains(text.substr(at))) out.push_back(at + character_length(text, at));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<RenderedPrompt> render_protected(const ChatTemplate& chat_template, const ChatTemplateInput& input,
                                        const LookAlikes& look_alikes) {
  auto plain = chat_template.render(input);
  if (!plain) return plain.error();
  bool any = false;
  each_text(input, [&](std::string_view text) { any = any || !look_alikes.places(text, false).empty(); });
  if (!any) return RenderedPrompt{std::move(*plain), {}};

  auto mark = unused_mark(input, chat_template.source());
  if (!mark)
    return Error{ErrorKind::invalid_argument,
                 "the messages use every private-use character of Unicode; leave one of them out", "messages"};
  Marking marking{look_alikes, *mark, false};
  auto first = chat_template.render(marked(input, marking));
  if (first) {
    auto prompt = without_marks(*first, *mark);
    if (prompt.text == *plain) return prompt;
  }
  marking.control_only_in_answers = true;
  auto second = chat_template.render(marked(input, marking));
  if (!second) return second.error();
  return without_marks(*second, *mark);
}

std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, const LookAlikes& look_alikes,
                                     const RenderedPrompt& prompt, bool add_bos) {
  if (prompt.breaks.empty()) return tokenizer.encode(prompt.text, {.parse_special = true, .add_bos = add_bos});
  std::vector<int32_t> ids;
  const std::string_view text = prompt.text;
  size_t from = 0;
  const auto encode_until = [&](size_t end, bool special) {
    if (end > from || (ids.empty() && add_bos)) {
      const auto piece = tokenizer.encode(text.substr(from, end - from), {special, add_bos && ids.empty()});
      ids.insert(ids.end(), piece.begin(), piece.end());
    }
    from = end;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t length = look_alikes.match(text, at, prompt.breaks);
    if (length == 0) {
      ++at;
      continue;
    }
    encode_until(at, false);
    at += length;
    encode_until(at, true);
  }
  encode_until(text.size(), false);
  return ids;
}

}  // namespace drafthorse
