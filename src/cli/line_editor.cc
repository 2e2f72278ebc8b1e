#include "cli/line_editor.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/interrupt.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

// The terminal gives every key as it is typed, until this ends.
class RawMode {
 public:
  RawMode() {
    if (tcgetattr(0, &before_) != 0) return;
    struct termios raw = before_;
    raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | IXON | BRKINT | INPCK | ISTRIP);
    raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    active_ = tcsetattr(0, TCSADRAIN, &raw) == 0;
    write("\x1b[?2004h");  // pasted text comes between marks
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;
  ~RawMode() {
    write("\x1b[?2004l");
    if (active_) tcsetattr(0, TCSADRAIN, &before_);
  }

  static void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

 private:
  struct termios before_ {};
  bool active_ = false;
};

size_t terminal_columns() {
  struct winsize size {};
  return ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void draw(const std::string& prompt, const EditBuffer& buffer) {
  size_t columns = terminal_columns();
  size_t room = columns > prompt.size() + 2 ? columns - prompt.size() - 1 : 1;
  VisibleLine visible = visible_part(buffer.text(), buffer.cursor(), room);
  RawMode::write(fmt::format("\r{}{}\x1b[K\r\x1b[{}C", prompt, visible.text, prompt.size() + visible.cursor_cell));
}

// More bytes from the terminal; false at its end. A lone ESC is given up after a moment.
bool read_more(std::string& bytes) {
  if (!bytes.empty()) {
    struct pollfd waiting {
      0, POLLIN, 0
    };
    if (::poll(&waiting, 1, 50) == 0) {
      bytes.clear();
      return true;
    }
  }
  char buffer[4096];
  ssize_t count = ::read(0, buffer, sizeof(buffer));
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  bytes.append(buffer, static_cast<size_t>(count));
  return true;
}

// History entries lie one a line; newlines and backslashes inside are escaped.
std::string escaped(const std::string& line) {
  std::string result;
  for (char c : line) result += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  return result;
}

std::string unescaped(const std::string& line) {
  std::string result;
  for (size_t i = 0; i < line.size(); ++i) {
    bool escape = line[i] == '\\' && i + 1 < line.size();
    if (escape) ++i;
    result += escape && line[i] == 'n' ? '\n' : line[i];
  }
  return result;
}

std::vector<std::string> read_history(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(unescaped(line));
  return lines;
}

}  // namespace

LineEditor::LineEditor(fs::path history_file)
    : history_file_(std::move(history_file)),
      history_(read_history(history_file_)),
      terminal_(::isatty(0) == 1 && ::isatty(1) == 1) {}

LineEnd LineEditor::read(const std::string& prompt, std::string& line) {
  line.clear();
  return terminal_ ? edit(prompt, line) : read_plain(line);
}

LineEnd LineEditor::edit(const std::string& prompt, std::string& line) {
  RawMode raw;
  EditBuffer buffer;
  bool pasting = false;
  history_.rewind();
  draw(prompt, buffer);
  for (;;) {
    KeyPress press = take_key(unread_);
    if (press.key == Key::none) {
      if (press.text.empty() && !read_more(unread_)) return LineEnd::end_of_input;
      continue;
    }
    std::optional<LineEnd> end;
    if (press.key == Key::paste_begin || press.key == Key::paste_end) pasting = press.key == Key::paste_begin;
    if (press.key == Key::enter && pasting) press = {Key::text, "\n"};
    if (press.key == Key::enter) end = LineEnd::line;
    if (press.key == Key::interrupt) end = LineEnd::interrupt;
    if (press.key == Key::end_of_input && buffer.text().empty()) end = LineEnd::end_of_input;
    if (press.key == Key::up) buffer.set(history_.older(buffer.text()));
    if (press.key == Key::down) buffer.set(history_.newer(buffer.text()));
    if (press.key == Key::clear_screen) RawMode::write("\x1b[H\x1b[2J");
    buffer.apply(press);
    if (end || !pasting || unread_.empty()) draw(prompt, buffer);
    if (!end) continue;
    RawMode::write("\r\n");
    line = buffer.text();
    return *end;
  }
}

LineEnd LineEditor::read_plain(std::string& line) {
  for (;;) {
    if (size_t end = unread_.find('\n'); end != unread_.npos) {
      line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return LineEnd::line;
    }
    char buffer[4096];
    ssize_t count = ::read(0, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) {
      if (interrupted()) return LineEnd::interrupt;
      continue;
    }
    if (count <= 0) {
      line = std::exchange(unread_, "");
      return line.empty() ? LineEnd::end_of_input : LineEnd::line;
    }
    unread_.append(buffer, static_cast<size_t>(count));
  }
}

void LineEditor::remember(const std::string& line) {
  size_t before = history_.lines().size();
  history_.add(line);
  if (!terminal_ || history_file_.empty() || history_.lines().size() == before) return;
  std::error_code error;
  fs::create_directories(history_file_.parent_path(), error);
  std::ofstream out(history_file_, std::ios::app);
  out << escaped(line) << '\n';
  fs::permissions(history_file_, fs::perms::owner_read | fs::perms::owner_write, error);
}

}  // namespace drafthorse
