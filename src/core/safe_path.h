#pragma once
// Whether names that came from elsewhere may become paths.

#include <string_view>

namespace drafthorse {

// True when `name` is one path component that is safe to create below a folder.
bool is_safe_component(std::string_view name);
// True when every component of a relative path of a repository is safe.
bool is_safe_path(std::string_view path);

}  // namespace drafthorse
