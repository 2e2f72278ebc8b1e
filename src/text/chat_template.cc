#include "text/chat_template.h"

#include <limits>

#include <boost/json/value.hpp>

#include "text/jinja_parser.h"
#include "text/jinja_runtime.h"

namespace drafthorse {
namespace {

namespace json = boost::json;
using jinja::Heap;
using jinja::Value;

constexpr int kMaxJsonDepth = 200;

Value to_value(Heap& heap, const json::value& value, int depth = 0) {
  if (depth > kMaxJsonDepth) jinja::fail("a message is nested too deeply");
  switch (value.kind()) {
    case json::kind::null: return Value();
    case json::kind::bool_: return Value::boolean(value.get_bool());
    case json::kind::int64: return Value::integer(value.get_int64());
    case json::kind::uint64: return Value::integer(value.get_uint64());
    case json::kind::double_: return Value::floating(value.get_double());
    case json::kind::string: return heap.string(std::string(value.get_string()));
    case json::kind::array: {
      std::vector<Value> items;
      items.reserve(value.get_array().size());
      for (const json::value& item : value.get_array()) items.push_back(to_value(heap, item, depth + 1));
      return heap.list(std::move(items));
    }
    case json::kind::object: {
      const auto dict = heap.make<jinja::DictObject>();
      for (const auto& member : value.get_object())
        dict->set(heap.string(std::string(member.key())), to_value(heap, member.value(), depth + 1));
      return heap.seal(dict);
    }
  }
  return Value();
}

class JinjaChatTemplate : public ChatTemplate {
 public:
  JinjaChatTemplate(std::string_view source, std::shared_ptr<const jinja::Template> parsed)
      : source_(source), parsed_(std::move(parsed)) {}

  const std::string& source() const override { return source_; }

  Result<std::string> render(const ChatTemplateInput& input) const override {
    int line = 1;
    try {
      jinja::Renderer renderer(*parsed_, jinja::Limits{}, input.now);
      try {
        define(renderer, input);
        return renderer.run();
      } catch (const jinja::Failure& failure) {
        line = renderer.line();
        return error(line, failure.message);
      }
    } catch (const jinja::Failure& failure) {
      return error(line, failure.message);
    }
  }

 private:
  static Error error(int line, const std::string& message) {
    return {ErrorKind::invalid_argument, "chat template line " + std::to_string(line) + ": " + message, "messages"};
  }

  // transformers' names, in its order of precedence: special tokens, then the caller's variables, then the conversation.
  static void define(jinja::Renderer& renderer, const ChatTemplateInput& input) {
    Heap& heap = renderer.heap();
    if (!input.bos_token.empty()) renderer.define("bos_token", heap.string(input.bos_token));
    if (!input.eos_token.empty()) renderer.define("eos_token", heap.string(input.eos_token));
    for (const auto& variable : input.variables) {
      const std::string name(variable.key());
      if (renderer.mentions(name)) renderer.define(name, to_value(heap, variable.value()));
    }
    renderer.define("messages", to_value(heap, input.messages));
    if (renderer.mentions("tools"))
      renderer.define("tools", input.tools.empty() ? Value() : to_value(heap, input.tools));
    if (!input.variables.contains("documents")) renderer.define("documents", Value());
    renderer.define("add_generation_prompt", Value::boolean(input.add_generation_prompt));
  }

  std::string source_;
  std::shared_ptr<const jinja::Template> parsed_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  auto parsed = jinja::parse_template(source);
  if (!parsed) return parsed.error().with_context("the chat template cannot be parsed");
  return std::shared_ptr<const ChatTemplate>(std::make_shared<JinjaChatTemplate>(source, std::move(*parsed)));
}

}  // namespace drafthorse
