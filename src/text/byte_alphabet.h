#pragma once
// The printable alphabet in which byte-level vocabularies spell bytes: 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for
// themselves, the other 68 bytes in order are U+0100, U+0101, …

#include <optional>
#include <string>
#include <string_view>

namespace drafthorse {

// The bytes that `token` spells; none when it has a character outside the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);
// The spelling of `bytes`.
std::string token_of_bytes(std::string_view bytes);

}  // namespace drafthorse
