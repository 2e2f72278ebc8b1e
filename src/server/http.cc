#include "server/http.h"

#include <algorithm>

#include <fmt/format.h>

namespace drafthorse {
namespace {

std::string_view reason(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  const auto append_clean = [&](std::string_view text) {
    for (const char c : text)
      if (c != '\r' && c != '\n') out += c;
  };
  append_clean(name);
  out += ": ";
  append_clean(value);
  out += "\r\n";
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

int HttpRequest::header_count(std::string_view name) const {
  return static_cast<int>(
      std::count_if(headers.begin(), headers.end(), [&](const auto& h) { return h.first == name; }));
}

std::string response_head(int status, std::string_view content_type,
                          const std::vector<std::pair<std::string, std::string>>& headers, std::optional<size_t> length,
                          bool chunked, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason(status));
  append_header(out, "Server", "drafthorse");
  if (status != 204) {
    append_header(out, "Content-Type", content_type);
    append_header(out, "X-Content-Type-Options", "nosniff");
    if (length) append_header(out, "Content-Length", std::to_string(*length));
    else if (chunked) append_header(out, "Transfer-Encoding", "chunked");
  }
  for (const auto& [name, value] : headers) append_header(out, name, value);
  append_header(out, "Connection", keep_alive ? "keep-alive" : "close");
  return out + "\r\n";
}

}  // namespace drafthorse
