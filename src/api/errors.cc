#include "api/errors.h"

#include <boost/json.hpp>

#include "api/json_text.h"
#include "api/served_model.h"

namespace drafthorse {
namespace {

std::string_view type_of(ErrorKind kind) {
  switch (http_status(kind)) {
    case 400:
    case 404: return "invalid_request_error";
    case 401: return "authentication_error";
    case 429: return "rate_limit_error";
    default: return "server_error";
  }
}

std::string_view code_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::context_length: return "context_length_exceeded";
    case ErrorKind::unauthorized: return "invalid_api_key";
    case ErrorKind::busy: return "server_busy";
    case ErrorKind::unsupported: return "unsupported_value";
    case ErrorKind::out_of_memory: return "out_of_memory";
    case ErrorKind::cancelled: return "cancelled";
    case ErrorKind::not_found: return error.param == "model" ? "model_not_found" : "";
    default: return "";
  }
}

}  // namespace

int http_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
    case ErrorKind::unsupported:
    case ErrorKind::context_length: return 400;
    case ErrorKind::unauthorized: return 401;
    case ErrorKind::not_found: return 404;
    case ErrorKind::busy: return 429;
    case ErrorKind::out_of_memory:
    case ErrorKind::cancelled: return 503;
    case ErrorKind::corrupt:
    case ErrorKind::io:
    case ErrorKind::internal: break;
  }
  return 500;
}

std::string error_body(const Error& error, std::string_view code) {
  if (code.empty()) code = code_of(error);
  std::string out =
      "{\"error\":{\"message\":" + json_quote(error.message) + ",\"type\":" + json_quote(type_of(error.kind));
  out += ",\"param\":" + (error.param.empty() ? "null" : json_quote(error.param));
  out += ",\"code\":" + (code.empty() ? "null" : json_quote(code)) + "}}";
  return out;
}

bool answers_to(const ServedModel& model, std::string_view name) {
  if (name.empty() || name == "default" || name == model.id) return true;
  for (const std::string& alias : model.aliases)
    if (name == alias) return true;
  return false;
}

Error unknown_model(const ServedModel& model, std::string_view name) {
  std::string names = model.id;
  for (const std::string& alias : model.aliases) names += ", " + alias;
  return {ErrorKind::not_found,
          "The model '" + valid_utf8(name.substr(0, 200)) + "' is not served here; this server answers to: " + names +
              ", default.",
          "model"};
}

}  // namespace drafthorse
