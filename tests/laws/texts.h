#pragma once
// Questions that real models are asked in the law tests.

#include <string>
#include <vector>

namespace drafthorse::test {

// Forty prompts: questions, code, lists, other languages, digits, and texts that repeat themselves.
inline std::vector<std::string> texts() {
  std::vector<std::string> list;
  const char* topics[] = {"the sea", "a violin",  "rust on iron", "bees", "the number seven",
                          "snow",    "a bicycle", "tea",          "maps", "glass"};
  for (const char* topic : topics) list.push_back(std::string("Tell me one thing about ") + topic + ".");
  for (int i = 1; i <= 6; ++i) {
    std::string lines;
    for (int k = 0; k < 3 * i; ++k)
      lines += "item " + std::to_string(k % 4) + " = " + std::to_string(k * 37 % 101) + "\n";
    list.push_back("Repeat these lines exactly:\n" + lines);
  }
  for (const char* word : {"name", "count", "total", "index", "value", "flag"}) {
    const std::string w = word;
    list.push_back("Rename " + w + " to x:\ndef f(" + w + "):\n    if " + w + " > 0:\n        return " + w +
                   " + 1\n    return " + w + "\n");
  }
  list.insert(
      list.end(),
      {"Was ist das Meer?", "\xC2\xBFQu\xC3\xA9 es el mar?",
       "\xE6\xB5\xB7\xE6\x98\xAF\xE4\xBB\x80\xE4\xB9\x88\xEF\xBC\x9F",
       "\xD0\xA7\xD1\x82\xD0\xBE \xD1\x82\xD0\xB0\xD0\xBA\xD0\xBE\xD0\xB5 \xD0\xBC\xD0\xBE\xD1\x80\xD0\xB5?",
       "\xF0\x9F\x90\xB4\xF0\x9F\x90\xB4\xF0\x9F\x90\xB4", "1234567890 1234567890 1234567890",
       "{\"a\": [1, 2, {\"b\": null}]}", "    indented\n\tand tabbed\n\n\n", "a", "SELECT * FROM t WHERE id = 1;"});
  for (int n : {2, 4, 8, 16, 24, 32, 48, 64}) {
    std::string long_text;
    for (int k = 0; k < n; ++k) long_text += "The quick brown fox jumps over the lazy dog. ";
    list.push_back(long_text);
  }
  return list;
}

}  // namespace drafthorse::test
