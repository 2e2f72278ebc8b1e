// A request body through the JSON parser and both decoders: it is answered or refused with a message.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/errors.h"
#include "api/json_text.h"
#include "api/openai_chat.h"
#include "api/openai_completions.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace drafthorse;
  ServedModel model;
  model.id = "tiny";
  model.vocab = 100;
  const auto body = parse_json({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  for (const auto decode : {decode_chat, decode_completions}) {
    const auto request = decode(*body, model);
    if (request) {
      if (request->prompts.empty() || request->n < 1 || request->choices() > 64) std::abort();
    } else if (request.error().message.empty() || !parse_json(error_body(request.error()))) {
      std::abort();
    }
  }
  return 0;
}
