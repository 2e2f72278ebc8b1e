#include "cli/edit_buffer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <utf8proc.h>

namespace drafthorse {
namespace {

constexpr size_t kMaxHistory = 1000;

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the UTF-8 character that starts with this byte; 1 for bytes that start none.
size_t sequence_length(unsigned char lead) {
  if (lead >= 0xF0 && lead < 0xF8) return 4;
  if (lead >= 0xE0) return lead < 0xF0 ? 3 : 1;
  return lead >= 0xC2 ? 2 : 1;
}

struct Sequence {
  std::string_view bytes;
  Key key;
};

constexpr std::array kSequences = {
    Sequence{"\x1b[A", Key::up},
    Sequence{"\x1b[B", Key::down},
    Sequence{"\x1b[C", Key::right},
    Sequence{"\x1b[D", Key::left},
    Sequence{"\x1b[H", Key::home},
    Sequence{"\x1b[F", Key::end},
    Sequence{"\x1bOA", Key::up},
    Sequence{"\x1bOB", Key::down},
    Sequence{"\x1bOC", Key::right},
    Sequence{"\x1bOD", Key::left},
    Sequence{"\x1bOH", Key::home},
    Sequence{"\x1bOF", Key::end},
    Sequence{"\x1b[1~", Key::home},
    Sequence{"\x1b[7~", Key::home},
    Sequence{"\x1b[4~", Key::end},
    Sequence{"\x1b[8~", Key::end},
    Sequence{"\x1b[3~", Key::remove},
    Sequence{"\x1b[1;5C", Key::word_right},
    Sequence{"\x1b[1;5D", Key::word_left},
    Sequence{"\x1b[1;3C", Key::word_right},
    Sequence{"\x1b[1;3D", Key::word_left},
    Sequence{"\x1b"
             "f",
             Key::word_right},
    Sequence{"\x1b"
             "b",
             Key::word_left},
    Sequence{"\x1b\x7f", Key::cut_word},
    Sequence{"\x1b[200~", Key::paste_begin},
    Sequence{"\x1b[201~", Key::paste_end},
    Sequence{"\x1b\r", Key::text},
};

KeyPress take(std::string& bytes, size_t count, Key key, std::string text = "") {
  bytes.erase(0, count);
  return {key, std::move(text)};
}

// Length of the escape sequence at the front: ESC [ parameters final, ESC O final, or ESC and one byte; 0: not whole
// yet.
size_t escape_length(const std::string& bytes) {
  if (bytes.size() < 2) return 0;
  if (bytes[1] == 'O') return bytes.size() < 3 ? 0 : 3;
  if (bytes[1] != '[') return 2;
  for (size_t i = 2; i < bytes.size(); ++i) {
    if (bytes[i] >= 0x40 && bytes[i] <= 0x7e) return i + 1;
  }
  return bytes.size() > 32 ? bytes.size() : 0;
}

KeyPress take_escape(std::string& bytes) {
  size_t length = escape_length(bytes);
  if (length == 0) return {};
  std::string_view sequence = std::string_view(bytes).substr(0, length);
  auto found = std::ranges::find(kSequences, sequence, &Sequence::bytes);
  if (found == kSequences.end()) return take(bytes, length, Key::none, "?");
  return take(bytes, length, found->key, found->key == Key::text ? "\n" : "");
}

Key control_key(char c) {
  switch (c) {
    case '\r':
    case '\n':  // Enter that was typed ahead, while the terminal still turned \r into \n
      return Key::enter;
    case 1: return Key::home;
    case 2: return Key::left;
    case 3: return Key::interrupt;
    case 4: return Key::end_of_input;
    case 5: return Key::end;
    case 6: return Key::right;
    case 8:
    case 127: return Key::backspace;
    case 11: return Key::cut_after;
    case 12: return Key::clear_screen;
    case 14: return Key::down;
    case 16: return Key::up;
    case 21: return Key::cut_before;
    case 23: return Key::cut_word;
    default: return Key::none;
  }
}

// Cells of the character at `at`, and its length in bytes. A newline shows as one sign.
std::pair<size_t, size_t> character_cells(std::string_view text, size_t at) {
  utf8proc_int32_t code = -1;
  auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
  utf8proc_ssize_t length = utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  if (length <= 0) return {1, 1};
  if (code < 0x20) return {1, 1};
  return {static_cast<size_t>(std::max(0, utf8proc_charwidth(code))), static_cast<size_t>(length)};
}

}  // namespace

KeyPress take_key(std::string& bytes) {
  if (bytes.empty()) return {};
  char c = bytes[0];
  if (c == 27) return take_escape(bytes);
  if (c == '\t') return take(bytes, 1, Key::text, "\t");
  if (static_cast<unsigned char>(c) < 0x20 || c == 127) {
    Key key = control_key(c);
    return take(bytes, 1, key, key == Key::none ? "?" : "");
  }
  size_t length = sequence_length(static_cast<unsigned char>(c));
  if (bytes.size() < length) return {};
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(bytes[i])) length = i;
  }
  return take(bytes, length, Key::text, bytes.substr(0, length));
}

void EditBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

size_t EditBuffer::before(size_t at) const {
  while (at > 0 && is_continuation(text_[--at])) {
  }
  return at;
}

size_t EditBuffer::after(size_t at) const {
  if (at < text_.size()) ++at;
  while (at < text_.size() && is_continuation(text_[at])) ++at;
  return at;
}

size_t EditBuffer::word_before() const {
  size_t at = cursor_;
  while (at > 0 && text_[at - 1] == ' ') --at;
  while (at > 0 && text_[at - 1] != ' ') --at;
  return at;
}

size_t EditBuffer::word_after() const {
  size_t at = cursor_;
  while (at < text_.size() && text_[at] == ' ') ++at;
  while (at < text_.size() && text_[at] != ' ') ++at;
  return at;
}

void EditBuffer::apply(const KeyPress& press) {
  auto cut = [&](size_t from, size_t to) {
    text_.erase(from, to - from);
    cursor_ = from;
  };
  switch (press.key) {
    case Key::text:
      text_.insert(cursor_, press.text);
      cursor_ += press.text.size();
      break;
    case Key::backspace: cut(before(cursor_), cursor_); break;
    case Key::remove: cut(cursor_, after(cursor_)); break;
    case Key::cut_before: cut(0, cursor_); break;
    case Key::cut_after: cut(cursor_, text_.size()); break;
    case Key::cut_word: cut(word_before(), cursor_); break;
    case Key::left: cursor_ = before(cursor_); break;
    case Key::right: cursor_ = after(cursor_); break;
    case Key::word_left: cursor_ = word_before(); break;
    case Key::word_right: cursor_ = word_after(); break;
    case Key::home: cursor_ = 0; break;
    case Key::end: cursor_ = text_.size(); break;
    default: break;
  }
}

void History::add(const std::string& line) {
  if (!line.empty() && (lines_.empty() || lines_.back() != line)) lines_.push_back(line);
  if (lines_.size() > kMaxHistory) lines_.erase(lines_.begin());
  rewind();
}

std::string History::older(const std::string& current) {
  if (at_ == 0) return current;
  if (at_ == lines_.size()) draft_ = current;
  return lines_[--at_];
}

std::string History::newer(const std::string& current) {
  if (at_ >= lines_.size()) return current;
  return ++at_ == lines_.size() ? draft_ : lines_[at_];
}

VisibleLine visible_part(std::string_view text, size_t cursor, size_t columns) {
  VisibleLine visible;
  size_t begin = 0, cells_before = 0;
  for (size_t at = 0; at < cursor;) {
    auto [cells, length] = character_cells(text, at);
    at += length;
    cells_before += cells;
    while (cells_before >= std::max<size_t>(columns, 2) && begin < at) {
      auto [dropped, bytes] = character_cells(text, begin);
      begin += bytes;
      cells_before -= dropped;
    }
  }
  visible.cursor_cell = cells_before;
  size_t used = 0;
  for (size_t at = begin; at < text.size();) {
    auto [cells, length] = character_cells(text, at);
    if (used + cells > columns) break;
    unsigned char c = static_cast<unsigned char>(text[at]);
    visible.text += c < 0x20 ? std::string(c == '\n' ? "↵" : " ") : std::string(text.substr(at, length));
    used += cells;
    at += length;
  }
  return visible;
}

}  // namespace drafthorse
