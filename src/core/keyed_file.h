#pragma once
// Small facts that programs keep between runs: a text file of lines "key, tab, value", the newest last.

#include <string>

namespace drafthorse {

// The value under `key`; empty when there is none, or no file. Line breaks and tabs of a key count as spaces.
std::string read_keyed(const std::string& file, const std::string& key);
// Adds or replaces it; the oldest of more than 64 go. Other programs see the old file or the new one. False when the file
// cannot be written or its name is empty.
bool write_keyed(const std::string& file, const std::string& key, const std::string& value);

}  // namespace drafthorse
