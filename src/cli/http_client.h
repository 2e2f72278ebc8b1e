#pragma once
// The few HTTP requests that fetching a model takes, over libcurl.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "core/result.h"

namespace drafthorse {

struct HttpClient {
  std::string token;   // sent as a bearer token to `origin` and to no other host
  std::string origin;  // scheme://host[:port] of the hub
  long connect_seconds = 15;
  std::function<bool()> cancelled;  // polled while waiting; true stops the request
};

struct HttpAnswer {
  long status = 0;
  std::string url;                                    // where the answer came from, after redirects
  std::map<std::string, std::string> headers;         // names in lower case; the last of equal names wins
  std::string header(const std::string& name) const;  // empty when absent
};

// HEAD; follows redirects that stay on the origin and stops at the first one that leaves it, which is then the
// answer (status 3xx with `location` absolute). Errors: io (no connection, in words), cancelled.
Result<HttpAnswer> http_head(const HttpClient& client, const std::string& url);

// GET of a small text, at most `limit` bytes. Follows redirects. The body is set for error statuses, too.
Result<HttpAnswer> http_get(const HttpClient& client, const std::string& url, size_t limit, std::string& body);

// GET of `url` appended to the open file `fd`, which holds `have` bytes already: asks for the rest by Range, and
// starts the file over when the server sends the whole. Stops early and fails when more than `size` bytes come.
// Follows redirects. progress(bytes in the file). `kept` is the file's length afterwards.
// Errors: io (connection, truncated body; with param "disk" when the file could not be written), corrupt (more bytes
// than `size`), cancelled.
Result<HttpAnswer> http_download(const HttpClient& client, const std::string& url, int fd, uint64_t have, uint64_t size,
                                 const std::function<void(uint64_t)>& progress, uint64_t& kept);

// scheme://host[:port] of a URL in lower case, the port always given; empty when it has no host.
std::string origin_of(const std::string& url);
// `reference` as seen from `base` (absolute, or relative in any form).
std::string resolve_url(const std::string& base, const std::string& reference);
// Percent-encodes everything but unreserved characters and '/'.
std::string encode_path(const std::string& path);

}  // namespace drafthorse
