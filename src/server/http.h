#pragma once
// HTTP as the rest of the server sees it: a request, and a responder that any thread may use.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace drafthorse {

struct ServerOptions;

struct HttpRequest {
  std::string method;                                        // "POST"
  std::string path;                                          // target up to the query, as sent
  std::string query;                                         // after the question mark
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, in order
  std::string body;
  int version = 11;  // 10 or 11
  // The value of the first header of that name (lower case); empty when absent.
  std::string_view header(std::string_view name) const;
  int header_count(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

struct StreamHead {
  std::string content_type = "text/event-stream; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string ping;  // sent after ServerOptions::ping_interval of silence; empty: never
};

// Why nobody reads any more.
enum class Gone { no, left, slow, stopping };

// The answer to one request: send once, or begin, write..., end. All functions may be called from any thread and
// never block on the client. Destroyed before send or end, it closes the connection.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void begin(StreamHead head) = 0;
  // False when nobody reads any more; also when this write passed ServerOptions::max_stream_buffer.
  virtual bool write(std::string_view bytes) = 0;
  virtual void end() = 0;
  virtual Gone gone() const = 0;
  // `callback` runs once, on an I/O thread or right here, when the client goes before the answer is complete.
  virtual void on_gone(std::function<void()> callback) = 0;
};

struct HttpHandlers {
  // Sees the head before the body is read; a response refuses the request and closes the connection.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> check;
  // Runs on an I/O thread and must return quickly.
  std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)> handle;
  // The response for what never becomes a request: 400, 408, 413, 431 or 503 with a reason.
  std::function<HttpResponse(int status, const std::string& message)> refuse;
};

// "HTTP/1.1 200 OK", headers, empty line. Carriage returns and line feeds in values are dropped.
// length: Content-Length; absent: chunked when `chunked`, else the connection's end ends the body.
std::string response_head(int status, std::string_view content_type,
                          const std::vector<std::pair<std::string, std::string>>& headers, std::optional<size_t> length,
                          bool chunked, bool keep_alive);

// One request from its bytes, with the limits of `options`. Error: invalid_argument. For tests and fuzzing.
Result<HttpRequest> parse_http_request(std::string_view bytes, const ServerOptions& options);

// Accepts connections on its own threads until closed.
class HttpServer {
 public:
  // Binds and listens at once. Errors: io (in use, not ours, not resolved), invalid_argument (see check_bind).
  static Result<std::unique_ptr<HttpServer>> listen(const ServerOptions& options, HttpHandlers handlers);
  ~HttpServer();

  std::string url() const;  // "http://127.0.0.1:8642"
  uint16_t port() const;
  int connections() const;
  // Calls `callback` on an I/O thread for every SIGINT and SIGTERM from now on.
  void catch_signals(std::function<void()> callback);
  // New connections are refused, idle ones closed, running requests go on. Returns at once.
  void stop_accepting();
  // Waits until no request is being answered; false after `timeout`.
  bool drain(std::chrono::milliseconds timeout);
  // Closes every connection (Gone::stopping) and joins the threads.
  void close();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace drafthorse
