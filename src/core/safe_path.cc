#include "core/safe_path.h"

#include <algorithm>

namespace drafthorse {

bool is_safe_component(std::string_view name) {
  if (name.empty() || name.size() > 200 || name == "." || name == "..") return false;
  return std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/' || c == '\\'; });
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1000) return false;
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find('/', begin), path.size());
    if (!is_safe_component(path.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace drafthorse
