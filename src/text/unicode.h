#pragma once
// UTF-8 and the Unicode properties that tokenisers ask about. Properties and normal forms come from utf8proc.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace drafthorse {

// Bits of char_class(). A code point carries all that apply.
enum CharClass : uint8_t {
  kUpper = 1,         // Lu, Lt
  kLower = 2,         // Ll
  kCaseless = 4,      // Lm, Lo
  kMark = 8,          // Mn, Mc, Me
  kNumber = 16,       // Nd, Nl, No
  kSpace = 32,        // White_Space
  kPunctuation = 64,  // P*, and the ASCII symbols $+<=>^`|~
  kWord = 128,        // what \w matches: Alphabetic, marks, Nd, Pc, joiners
};
inline constexpr uint8_t kLetter = kUpper | kLower | kCaseless;

// One byte of CharClass bits for each code point below 0x110000; built once, never changed.
const uint8_t* char_class_table();
inline uint8_t char_class(char32_t code_point) { return code_point < 0x110000 ? char_class_table()[code_point] : 0; }

struct DecodedChar {
  char32_t code_point;  // U+FFFD when not valid
  uint32_t length;  // bytes used, at least 1; of an invalid sequence its maximal subpart (Unicode 3.9, U+FFFD practice)
  bool valid;
};
// Decodes the character that starts at text[at]; at < text.size().
DecodedChar decode_utf8(std::string_view text, size_t at);

// The character at `p` of text known to be valid UTF-8; `*length` receives its bytes.
inline char32_t decode_valid_utf8(const char* p, uint32_t* length) {
  const auto* b = reinterpret_cast<const unsigned char*>(p);
  if (b[0] < 0x80) return *length = 1, b[0];
  if (b[0] < 0xE0) return *length = 2, (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
  if (b[0] < 0xF0) return *length = 3, (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
  return *length = 4, (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
}

bool is_valid_utf8(std::string_view text);
// Invalid sequences become U+FFFD: one for each maximal subpart, or one for each invalid byte.
std::string replace_invalid_utf8(std::string_view text, bool per_byte = false);
// How many bytes at the end of `text` are a proper prefix of some valid character (0 to 3).
size_t incomplete_utf8_tail(std::string_view text);
void append_utf8(std::string& out, char32_t code_point);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
// text: valid UTF-8.
std::string normalise(std::string_view text, NormalForm form);
// True when `text` is certainly in NFC already: it has no code point from U+0300 up.
bool is_surely_nfc(std::string_view text);
// Full lower case of each character by itself (no final-sigma rule), as Rust's char::to_lowercase.
std::string lowercase(std::string_view text);

}  // namespace drafthorse
