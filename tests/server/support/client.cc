#include "server/support/client.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace drafthorse::testing {
namespace {

// A server that has gone is an error, not a signal; on macOS an option of the socket says so.
#if defined(SO_NOSIGPIPE)
constexpr int kSendFlags = 0;
#else
constexpr int kSendFlags = MSG_NOSIGNAL;
#endif

}  // namespace

Client::Client(uint16_t port, const std::string& address, int receive_buffer) {
  sockaddr_storage storage{};
  socklen_t length = 0;
  if (address.find(':') != std::string::npos) {
    auto* to = reinterpret_cast<sockaddr_in6*>(&storage);
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    inet_pton(AF_INET6, address.c_str(), &to->sin6_addr);
    length = sizeof(sockaddr_in6);
  } else {
    auto* to = reinterpret_cast<sockaddr_in*>(&storage);
    to->sin_family = AF_INET;
    to->sin_port = htons(port);
    inet_pton(AF_INET, address.c_str(), &to->sin_addr);
    length = sizeof(sockaddr_in);
  }
  socket_ = ::socket(storage.ss_family, SOCK_STREAM, 0);
#if defined(SO_NOSIGPIPE)
  const int on = 1;
  setsockopt(socket_, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  if (receive_buffer > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  if (connect(socket_, reinterpret_cast<sockaddr*>(&storage), length) != 0) close();
}

Client::~Client() { close(); }

void Client::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

bool Client::send(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, kSendFlags);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

std::string Client::receive(std::chrono::milliseconds timeout) {
  pollfd wait{socket_, POLLIN, 0};
  if (socket_ < 0 || poll(&wait, 1, static_cast<int>(timeout.count())) <= 0) return "";
  char bytes[65536];
  const ssize_t n = recv(socket_, bytes, sizeof bytes, 0);
  return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : "";
}

bool Client::closed(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < end) {
    pollfd wait{socket_, POLLIN, 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (poll(&wait, 1, static_cast<int>(left.count())) <= 0) return false;
    char bytes[65536];
    if (recv(socket_, bytes, sizeof bytes, 0) <= 0) return true;
  }
  return false;
}

bool Client::receive_until(const std::string& text) {
  while (buffer_.find(text) == std::string::npos) {
    const std::string more = receive();
    if (more.empty()) return false;
    buffer_ += more;
  }
  return true;
}

Response Client::response(bool head_only) {
  Response out;
  if (!receive_until("\r\n\r\n")) return out;
  const size_t head_end = buffer_.find("\r\n\r\n") + 4;
  const std::string head = buffer_.substr(0, head_end);
  buffer_.erase(0, head_end);
  out.status = std::atoi(head.c_str() + std::strlen("HTTP/1.1 "));
  for (size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
    const size_t end = head.find("\r\n", at), colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    out.headers[name] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  const auto take = [&](size_t bytes) {
    while (buffer_.size() < bytes) {
      const std::string more = receive();
      if (more.empty()) return false;
      buffer_ += more;
    }
    return true;
  };
  if (head_only || out.status == 204) {
    out.complete = true;
  } else if (out.headers.count("content-length")) {
    const size_t length = std::stoul(out.headers["content-length"]);
    out.complete = take(length);
    out.body = buffer_.substr(0, length);
    buffer_.erase(0, std::min(length, buffer_.size()));
  } else if (out.headers.count("transfer-encoding")) {
    for (;;) {
      if (!receive_until("\r\n")) break;
      const size_t line = buffer_.find("\r\n");
      const size_t length = std::stoul(buffer_.substr(0, line), nullptr, 16);
      if (!take(line + 2 + length + 2)) break;
      const std::string chunk = buffer_.substr(line + 2, length);
      buffer_.erase(0, line + 2 + length + 2);
      if (length == 0) {
        out.complete = true;
        break;
      }
      out.chunks.push_back(chunk);
      out.body += chunk;
    }
  } else {
    for (std::string more = receive(); !more.empty(); more = receive()) buffer_ += more;
    out.body = std::exchange(buffer_, "");
    out.complete = true;
  }
  return out;
}

std::string get(const std::string& path, const std::string& extra, const std::string& method) {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + extra + "\r\n";
}

std::string post(const std::string& path, const std::string& body, const std::string& extra) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + extra +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

Response ask(uint16_t port, const std::string& request) {
  Client client(port);
  client.send(request);
  return client.response(request.starts_with("HEAD"));
}

std::vector<std::string> events(const std::string& body) {
  std::vector<std::string> out;
  for (size_t at = body.find("data: "); at != std::string::npos; at = body.find("data: ", at)) {
    at += 6;
    out.push_back(body.substr(at, body.find("\n\n", at) - at));
  }
  return out;
}

}  // namespace drafthorse::testing
