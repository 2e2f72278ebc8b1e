#pragma once
// Reads lines: with editing and history on a terminal, plainly elsewhere.

#include <filesystem>
#include <string>

#include "cli/edit_buffer.h"

namespace drafthorse {

enum class LineEnd { line, interrupt, end_of_input };

class LineEditor {
 public:
  // `history_file`: read now, added to as lines come; it is readable by the user alone. Empty: no file.
  explicit LineEditor(std::filesystem::path history_file);
  bool terminal() const { return terminal_; }
  // Shows `prompt` (on a terminal) and reads a line into `line`. A pasted text may hold newlines.
  LineEnd read(const std::string& prompt, std::string& line);
  void remember(const std::string& line);

 private:
  LineEnd edit(const std::string& prompt, std::string& line);
  LineEnd read_plain(std::string& line);
  std::filesystem::path history_file_;
  History history_;
  bool terminal_;
  std::string unread_;  // bytes that were typed ahead
};

}  // namespace drafthorse
