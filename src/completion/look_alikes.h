#pragma once
// Keeps text that users wrote from being taken for the markers of a chat template.
//
// A template is rendered to one string, in which "<|im_end|>" of the template and "<|im_end|>" of a message look the
// same. So before rendering, a mark (a private-use character that occurs nowhere in the input) is put behind the
// first character of everything in the messages that looks like an added token, and of an end that could become one
// when something is appended. Filters of templates (trim, tojson, slices, upper …) carry the mark along. After
// rendering the marks are taken out, and no added token is recognised across a place where one was.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace drafthorse {

class LookAlikes {
 public:
  explicit LookAlikes(const Tokenizer& tokenizer);

  // Length of the longest added token at text[at], or 0. `breaks` (ascending) are places that it must not span.
  size_t match(std::string_view text, size_t at, const std::vector<size_t>& breaks = {}) const;
  // Byte offsets in `text` at which a mark belongs; `control_only` looks at hidden tokens only.
  std::vector<size_t> places(std::string_view text, bool control_only) const;

 private:
  struct Set {
    std::unordered_set<std::string_view> tokens, beginnings;  // views of texts_
    std::vector<size_t> lengths;                              // of the tokens, longest first
    size_t longest_beginning = 0;
    bool starts[256] = {};
    void add(std::string_view token);
  };

  static size_t longest(const Set& set, std::string_view text, size_t at, const std::vector<size_t>& breaks);

  std::vector<std::string> texts_;
  Set all_, control_;
};

// A rendered prompt: the text, and the places that no added token may span.
struct RenderedPrompt {
  std::string text;
  std::vector<size_t> breaks;  // ascending byte offsets
};

// Renders with the protection above. Templates that look into messages for markers (for "</think>" in an earlier
// answer, say) must see them, so when the protected rendering differs, markers that are ordinary text on output are
// left alone in assistant messages. Errors: those of the template.
Result<RenderedPrompt> render_protected(const ChatTemplate& chat_template, const ChatTemplateInput& input,
                                        const LookAlikes& look_alikes);

// The tokens of a rendered prompt.
std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, const LookAlikes& look_alikes,
                                     const RenderedPrompt& prompt, bool add_bos);

}  // namespace drafthorse
