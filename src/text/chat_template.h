#pragma once
// A checkpoint's own chat template (Jinja), rendered as Hugging Face transformers renders it.

#include <memory>
#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/result.h"

namespace drafthorse {

struct ChatTemplateInput {
  boost::json::array messages;    // OpenAI messages; tool_calls[].function.arguments already parsed to objects
  boost::json::array tools;       // empty: none given
  boost::json::object variables;  // chat_template_kwargs: enable_thinking, …
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;
  int64_t now = 0;  // unix seconds for strftime_now
};

class ChatTemplate {
 public:
  // Error: invalid_argument with line and what was expected.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  virtual ~ChatTemplate() = default;
  // Error: invalid_argument (raise_exception's own words, or an operation on wrong types, with the template line);
  // also when the fuel budget (work and output size) is used up.
  virtual Result<std::string> render(const ChatTemplateInput& input) const = 0;
  virtual const std::string& source() const = 0;
};

}  // namespace drafthorse
