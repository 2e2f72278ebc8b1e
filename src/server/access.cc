#include "server/access.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace drafthorse {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// The host of "name", "name:port", "[v6]" or "[v6]:port"; empty when malformed.
std::string host_of(std::string_view authority) {
  if (!authority.empty() && authority.front() == '[') {
    const size_t end = authority.find(']');
    return end == std::string_view::npos ? "" : lower(authority.substr(1, end - 1));
  }
  std::string host = lower(authority.substr(0, authority.find(':')));
  if (host.size() > 1 && host.back() == '.') host.pop_back();
  return host;
}

bool is_ip_literal(const std::string& host) {
  std::array<unsigned char, 16> bytes;
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;
Digest digest(std::string_view text) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

std::string_view bearer(std::string_view authorization) {
  const size_t space = authorization.find(' ');
  if (space == std::string_view::npos || lower(authorization.substr(0, space)) != "bearer") return {};
  authorization.remove_prefix(space + 1);
  return authorization;
}

}  // namespace

Status check_bind(const ServerOptions& options, bool loopback) {
  for (const std::string& key : options.api_keys)
    if (key.empty())
      return Error{ErrorKind::invalid_argument, "An API key is empty: give --api-key a text.", "api_key"};
  if (loopback || !options.api_keys.empty() || options.no_auth) return {};
  return Error{
      ErrorKind::invalid_argument,
      fmt::format("Listening on {} lets other machines in: set --api-key KEY, or --no-auth to serve them without one.",
                  options.host),
      "host"};
}

bool is_loopback_host(std::string_view name) {
  const std::string host = lower(name);
  constexpr std::string_view suffix = ".localhost";
  if (host == "localhost" || (host.size() > suffix.size() && host.ends_with(suffix))) return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool host_allowed(std::string_view host_header, const ServerOptions& options) {
  const std::string host = host_of(host_header);
  if (host.empty()) return false;
  const std::string bound = options.host.starts_with('[') ? host_of(options.host) : lower(options.host);
  if (is_loopback_host(host) || host == bound) return true;
  if (!is_loopback_host(bound) && is_ip_literal(host)) return true;
  return std::any_of(options.allow_hosts.begin(), options.allow_hosts.end(),
                     [&](const std::string& allowed) { return lower(allowed) == host; });
}

std::optional<std::string> cors_origin(std::string_view origin, const ServerOptions& options) {
  for (const std::string& allowed : options.cors_origins) {
    if (allowed == "*") return "*";
    if (lower(allowed) == lower(origin)) return std::string(origin);
  }
  return std::nullopt;
}

bool key_accepted(const HttpRequest& request, const ServerOptions& options) {
  if (options.api_keys.empty()) return true;
  const std::array given = {digest(bearer(request.header("authorization"))), digest(request.header("x-api-key"))};
  int accepted = 0;
  // Digests have one length, so the time tells neither length nor prefix of a key.
  for (const std::string& key : options.api_keys) {
    const Digest wanted = digest(key);
    for (const Digest& candidate : given)
      accepted |= CRYPTO_memcmp(wanted.data(), candidate.data(), wanted.size()) == 0;
  }
  return accepted != 0;
}

}  // namespace drafthorse
