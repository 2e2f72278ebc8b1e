#pragma once
// The line that is being typed: text, cursor, and what keys do to them. No terminal here.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace drafthorse {

enum class Key {
  none,
  text,
  enter,
  interrupt,
  end_of_input,
  backspace,
  remove,
  left,
  right,
  word_left,
  word_right,
  home,
  end,
  up,
  down,
  cut_before,
  cut_after,
  cut_word,
  clear_screen,
  paste_begin,
  paste_end,
};

struct KeyPress {
  Key key = Key::none;
  std::string text;  // Key::text: one UTF-8 character (or invalid byte)
};

// Takes one key press from the front of `bytes` (removed). Key::none and no removal: more bytes are needed.
// Unknown escape sequences are removed and reported as Key::none with text "?".
KeyPress take_key(std::string& bytes);

class EditBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // byte offset, on a character's border
  void set(std::string text);                // cursor to the end
  // Editing keys; others are ignored.
  void apply(const KeyPress& press);

 private:
  size_t before(size_t at) const;  // start of the character before
  size_t after(size_t at) const;
  size_t word_before() const;
  size_t word_after() const;
  std::string text_;
  size_t cursor_ = 0;
};

// Lines typed before, newest last; up and down walk through them and come back to what was being typed.
class History {
 public:
  explicit History(std::vector<std::string> lines = {}) : lines_(std::move(lines)), at_(lines_.size()) {}
  const std::vector<std::string>& lines() const { return lines_; }
  void add(const std::string& line);  // not when empty or equal to the last
  void rewind() { at_ = lines_.size(); }
  // The neighbouring entry, or `current` where there is none.
  std::string older(const std::string& current);
  std::string newer(const std::string& current);

 private:
  std::vector<std::string> lines_;
  size_t at_;
  std::string draft_;
};

// What of a line is visible in `columns` cells: a window around the cursor, and the cursor's cell in it.
struct VisibleLine {
  std::string text;
  size_t cursor_cell = 0;
};
VisibleLine visible_part(std::string_view text, size_t cursor, size_t columns);

}  // namespace drafthorse
