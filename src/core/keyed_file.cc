#include "core/keyed_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

namespace drafthorse {
namespace {

constexpr size_t kKeptKeys = 64;

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  return text;
}

std::vector<std::string> read_lines(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; lines.size() < 4 * kKeptKeys && std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::string read_keyed(const std::string& file, const std::string& key) {
  if (file.empty()) return {};
  const std::string prefix = one_line(key) + "\t";
  for (const auto& line : read_lines(file))
    if (line.starts_with(prefix)) return line.substr(prefix.size());
  return {};
}

bool write_keyed(const std::string& file, const std::string& key, const std::string& value) {
  if (file.empty()) return false;
  const std::string prefix = one_line(key) + "\t";
  auto lines = read_lines(file);
  std::erase_if(lines, [&](const std::string& line) { return line.starts_with(prefix); });
  lines.push_back(prefix + one_line(value));
  if (lines.size() > kKeptKeys) lines.erase(lines.begin(), lines.end() - kKeptKeys);

  std::error_code ignored;
  const std::filesystem::path path(file);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  const std::string partial = fmt::format("{}.{}", file, ::getpid());
  {
    std::ofstream out(partial, std::ios::trunc);
    for (const auto& l : lines) out << l << '\n';
    if (!out.flush()) return false;
  }
  std::filesystem::rename(partial, path, ignored);
  return !ignored;
}

}  // namespace drafthorse
