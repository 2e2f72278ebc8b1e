#include "text/byte_alphabet.h"

#include <array>

#include "text/unicode.h"

namespace drafthorse {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> kCharacters = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) characters[byte] = stands_for_itself(byte) ? byte : next++;
  return characters;
}();

constexpr std::array<int, 0x144> kBytes = [] {
  std::array<int, 0x144> bytes{};
  for (int& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = byte;
  return bytes;
}();

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const DecodedChar c = decode_utf8(token, at);
    if (c.code_point >= kBytes.size() || kBytes[c.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[c.code_point]));
    at += c.length;
  }
  return bytes;
}

std::string token_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_utf8(token, kCharacters[static_cast<uint8_t>(byte)]);
  return token;
}

}  // namespace drafthorse
