// Hostile tokenizer files and texts: nothing may crash, hang or break a character.
// Input: a tokenizer.json, a zero byte, a text. Without a zero byte the second half is the text.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/tokenizer.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace drafthorse;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  size_t end = input.find('\0');
  const size_t text_start = end == std::string_view::npos ? size / 2 : end + 1;
  if (end == std::string_view::npos) end = size / 2;
  const auto tokenizer = Tokenizer::from_json(input.substr(0, end), "");
  if (!tokenizer) return 0;
  const std::string_view text = input.substr(text_start);
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->encode(text, {.parse_special = parse_special, .add_bos = true});
    StreamDecoder decoder(*tokenizer, true);
    std::string streamed;
    for (const int32_t id : ids) {
      if (id < 0 || id >= (*tokenizer)->vocab_size()) std::abort();
      const std::string part = decoder.push(id);
      if (!is_valid_utf8(part)) std::abort();
      streamed += part;
    }
    streamed += decoder.finish();
    if (streamed != (*tokenizer)->decode(ids, true)) std::abort();
  }
  return 0;
}
