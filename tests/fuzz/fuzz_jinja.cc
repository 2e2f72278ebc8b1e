// libFuzzer: any bytes as a template, rendered with a small conversation. Nothing may crash, hang or grow without bound.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <boost/json.hpp>

#include "text/chat_template.h"

namespace {

drafthorse::ChatTemplateInput conversation() {
  namespace json = boost::json;
  drafthorse::ChatTemplateInput input;
  input.messages = json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "Grüße"},
      {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]}])")
                       .as_array();
  input.tools =
      json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])").as_array();
  input.variables =
      json::parse(R"({"xs": [3, 1, 2], "d": {"b": 1, "a": {}}, "s": "text", "n": 7, "f": 0.5})").as_object();
  input.bos_token = "<s>";
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const drafthorse::ChatTemplateInput input = conversation();
  const auto parsed = drafthorse::ChatTemplate::parse({reinterpret_cast<const char*>(data), size});
  if (parsed) (void)(*parsed)->render(input);
  return 0;
}
