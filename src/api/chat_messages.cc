#include "api/chat_messages.h"

#include <fmt/format.h>
#include <boost/json.hpp>

#include "api/json_fields.h"
#include "api/json_text.h"

namespace drafthorse {

namespace json = boost::json;

namespace {

void decode_part(Fields& message, const json::value& part, size_t index, json::string& text) {
  const std::string name = fmt::format("content[{}]", index);
  if (!part.is_object()) return message.fail(name, fmt::format("'{}' must be an object.", message.param(name)));
  Fields fields(part.get_object(), message.param(name) + ".");
  const auto type = fields.string("type");
  if (!type) {
    fields.fail("type", fmt::format("'{}' must be \"text\".", fields.param("type")));
  } else if (*type != "text") {
    fields.fail("type",
                fmt::format("Content parts of type {} are not supported: this model reads text only.",
                            describe(json::value(*type))),
                ErrorKind::unsupported);
  } else if (const auto content = fields.string("text")) {
    if (index > 0) text += '\n';
    text += *content;
  } else {
    fields.fail("text", fmt::format("'{}' must be a string.", fields.param("text")));
  }
  fields.ignore({"cache_control"});
  if (const Status status = fields.done(); !status) message.fail(status.error());
}

// Sets out["content"]; false when there is none.
bool decode_content(Fields& fields, json::object& out) {
  const json::value* content = fields.any("content");
  if (!content) return false;
  if (content->is_string()) {
    out["content"] = content->get_string();
  } else if (content->is_array() && !content->get_array().empty()) {
    json::string text;
    for (size_t i = 0; i < content->get_array().size() && !fields.failed(); ++i)
      decode_part(fields, content->get_array()[i], i, text);
    out["content"] = std::move(text);
  } else {
    fields.fail("content", fmt::format("'{}' must be a string or an array of text parts, but {} was given.",
                                       fields.param("content"), describe(*content)));
  }
  return true;
}

void decode_tool_call(Fields& message, const json::value& call, size_t index, json::array& out) {
  const std::string name = fmt::format("tool_calls[{}]", index);
  if (!call.is_object()) return message.fail(name, fmt::format("'{}' must be an object.", message.param(name)));
  Fields fields(call.get_object(), message.param(name) + ".");
  const auto id = fields.string("id");
  if (const auto type = fields.string("type"); type && *type != "function")
    fields.fail("type", "Only tool calls of type \"function\" are supported.", ErrorKind::unsupported);
  fields.ignore({"index"});
  const json::object* function = fields.object("function");
  if (!function) fields.fail("function", fmt::format("'{}' is missing.", fields.param("function")));
  if (function) {
    Fields inner(*function, fields.param("function") + ".");
    const auto function_name = inner.string("name");
    if (!function_name) inner.fail("name", fmt::format("'{}' is missing.", inner.param("name")));
    const auto arguments = inner.string("arguments");
    json::object made{{"name", function_name.value_or("")}};
    // A model may have written arguments that are no object; the template then sees the text as it was.
    auto parsed = parse_json(arguments.value_or("{}"));
    made["arguments"] = parsed && parsed->is_object() ? *std::move(parsed) : json::value(arguments.value_or(""));
    json::object entry{{"type", "function"}, {"function", std::move(made)}};
    if (id) entry["id"] = *id;
    out.push_back(std::move(entry));
    if (const Status status = inner.done(); !status) fields.fail(status.error());
  }
  if (const Status status = fields.done(); !status) message.fail(status.error());
}

void decode_assistant(Fields& fields, json::object& out) {
  if (const json::array* calls = fields.array("tool_calls"); calls && !calls->empty()) {
    json::array made;
    for (size_t i = 0; i < calls->size() && !fields.failed(); ++i) decode_tool_call(fields, (*calls)[i], i, made);
    out["tool_calls"] = std::move(made);
  }
  if (const auto reasoning = fields.string("reasoning_content")) out["reasoning_content"] = *reasoning;
  // What clients send back of an earlier answer; none of it is part of the conversation's text.
  fields.ignore({"annotations", "refusal", "audio", "id"});
}

Status decode_message(const json::object& message, const std::string& path, json::array& out) {
  Fields fields(message, path + ".");
  const auto role = fields.string("role");
  json::object made;
  if (!role ||
      (*role != "system" && *role != "developer" && *role != "user" && *role != "assistant" && *role != "tool")) {
    fields.fail("role", fmt::format("'{}' must be one of system, developer, user, assistant, tool, but {} was given.",
                                    fields.param("role"), role ? describe(json::value(*role)) : "nothing"));
    return fields.done();
  }
  made["role"] = *role == "developer" ? "system" : *role;
  const bool has_content = decode_content(fields, made);
  if (const auto name = fields.string("name")) made["name"] = *name;
  if (*role == "assistant") decode_assistant(fields, made);
  if (*role == "tool") {
    if (const auto id = fields.string("tool_call_id")) made["tool_call_id"] = *id;
  }
  if (!has_content) {
    if (!made.contains("tool_calls"))
      fields.fail("content",
                  fmt::format("'{}' is missing: a {} message needs content.", fields.param("content"), *role));
    made["content"] = "";
  }
  out.push_back(std::move(made));
  return fields.done();
}

}  // namespace

Result<json::array> decode_messages(const json::array& messages) {
  if (messages.empty())
    return Error{ErrorKind::invalid_argument, "'messages' is empty: send at least one message.", "messages"};
  json::array out;
  out.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string path = fmt::format("messages[{}]", i);
    if (!messages[i].is_object())
      return Error{ErrorKind::invalid_argument,
                   fmt::format("'{}' must be an object, but {} was given.", path, describe(messages[i])), path};
    if (Status status = decode_message(messages[i].get_object(), path, out); !status) return status.error();
  }
  return out;
}

}  // namespace drafthorse
