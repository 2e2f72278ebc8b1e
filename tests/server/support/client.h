#pragma once
// A plain socket client, so that tests can misbehave in every way that HTTP libraries forbid.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace drafthorse::testing {

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  std::vector<std::string> chunks;
  bool complete = false;  // ended as its framing says
};

class Client {
 public:
  explicit Client(uint16_t port, const std::string& address = "127.0.0.1", int receive_buffer = 0);
  ~Client();
  Client(const Client&) = delete;

  bool send(const std::string& bytes);
  // Reads at least one byte unless the server closes or `timeout` passes.
  std::string receive(std::chrono::milliseconds timeout = std::chrono::seconds(5));
  // True when the server closed the connection within `timeout`.
  bool closed(std::chrono::milliseconds timeout = std::chrono::seconds(5));
  Response response(bool head_only = false);
  // Reads until `text` has come; false when it does not.
  bool receive_until(const std::string& text);
  void close();

 private:
  std::string buffer_;
  int socket_ = -1;
};

std::string get(const std::string& path, const std::string& extra = "", const std::string& method = "GET");
std::string post(const std::string& path, const std::string& body, const std::string& extra = "");
// One request on a connection of its own.
Response ask(uint16_t port, const std::string& request);
// The payloads of "data: …" events.
std::vector<std::string> events(const std::string& body);

}  // namespace drafthorse::testing
