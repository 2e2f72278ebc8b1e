#include "cli/http_client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include <curl/curl.h>
#include <fmt/format.h>

#include "core/version.h"

namespace drafthorse {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxHeaderBytes = 256 << 10;

using Curl = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using CurlUrl = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

// One exchange: what the callbacks need and what they find out.
struct Exchange {
  const HttpClient* client = nullptr;
  HttpAnswer answer;
  size_t header_bytes = 0;
  std::function<bool(const char*, size_t)> sink;  // body bytes; false stops
  std::optional<Error> sink_error;                // why it stopped
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto* exchange = static_cast<Exchange*>(user);
  std::string line(data, size * count);
  exchange->header_bytes += line.size();
  if (exchange->header_bytes > kMaxHeaderBytes) return 0;
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.pop_back();
  if (line.starts_with("HTTP/")) exchange->answer.headers.clear();  // a new answer after 1xx
  if (size_t colon = line.find(':'); colon != line.npos) {
    size_t value = line.find_first_not_of(" \t", colon + 1);
    exchange->answer.headers[lower(line.substr(0, colon))] = value == line.npos ? "" : line.substr(value);
  }
  return size * count;
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto* exchange = static_cast<Exchange*>(user);
  return exchange->sink(data, size * count) ? size * count : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto* exchange = static_cast<Exchange*>(user);
  return exchange->client->cancelled && exchange->client->cancelled() ? 1 : 0;
}

// Prepares a handle with everything that all requests share.
Curl make_request(Exchange& exchange, const std::string& url, curl_slist* headers) {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  Curl curl(started ? curl_easy_init() : nullptr, curl_easy_cleanup);
  if (!curl) return curl;
  CURL* handle = curl.get();
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_USERAGENT, fmt::format("drafthorse/{}", kVersion).c_str());
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, exchange.client->connect_seconds);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, 30L);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &exchange);
  return curl;
}

Error transport_error(CURLcode code, const Exchange& exchange, const std::string& url) {
  if (code == CURLE_ABORTED_BY_CALLBACK) return {ErrorKind::cancelled, "stopped", ""};
  if (exchange.sink_error) return *exchange.sink_error;
  std::string host = origin_of(url);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return {ErrorKind::io, fmt::format("{} is not reachable: its name does not resolve", host), ""};
    case CURLE_COULDNT_CONNECT:
      return {ErrorKind::io, fmt::format("{} is not reachable: the connection is refused", host), ""};
    case CURLE_OPERATION_TIMEDOUT: return {ErrorKind::io, fmt::format("{} does not answer", host), ""};
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING: return {ErrorKind::io, fmt::format("{} closed the connection before the end", host), ""};
    default: return {ErrorKind::io, fmt::format("{}: {}", host, curl_easy_strerror(code)), ""};
  }
}

// One request without following redirects. The token goes to the origin only.
Result<HttpAnswer> request_once(Exchange& exchange, const std::string& url, bool head, const std::string& range) {
  exchange.answer = {};
  exchange.answer.url = url;
  exchange.header_bytes = 0;
  curl_slist* list = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (!exchange.client->token.empty() && origin_of(url) == origin_of(exchange.client->origin)) {
    list = curl_slist_append(list, ("Authorization: Bearer " + exchange.client->token).c_str());
  }
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, curl_slist_free_all);
  Curl curl = make_request(exchange, url, headers.get());
  if (!curl) return Error{ErrorKind::internal, "libcurl could not be started", ""};
  if (head) curl_easy_setopt(curl.get(), CURLOPT_NOBODY, 1L);
  if (!range.empty()) curl_easy_setopt(curl.get(), CURLOPT_RANGE, range.c_str());
  // The sink sees the status through the answer, so it is filled in on the first body byte.
  auto inner = exchange.sink;
  exchange.sink = [&](const char* data, size_t size) {
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &exchange.answer.status);
    return inner ? inner(data, size) : true;
  };
  CURLcode code = curl_easy_perform(curl.get());
  exchange.sink = inner;
  if (code != CURLE_OK) return transport_error(code, exchange, url);
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &exchange.answer.status);
  return exchange.answer;
}

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Follows redirects by hand, so that the token and the scheme are under control.
Result<HttpAnswer> request(Exchange& exchange, std::string url, bool head, const std::string& range) {
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    Result<HttpAnswer> answer = request_once(exchange, url, head, range);
    if (!answer || !is_redirect(answer->status)) return answer;
    std::string next = resolve_url(url, answer->header("location"));
    std::string origin = origin_of(next);
    if (origin.empty()) return Error{ErrorKind::io, fmt::format("{} redirects to nowhere", origin_of(url)), ""};
    if (origin_of(url).starts_with("https:") && !origin.starts_with("https:")) {
      return Error{ErrorKind::io,
                   fmt::format("{} redirects to {}, which is not encrypted: refused", origin_of(url), origin), ""};
    }
    if (head && origin != origin_of(exchange.client->origin)) {
      answer->headers["location"] = next;
      return answer;
    }
    url = next;
  }
  return Error{ErrorKind::io, fmt::format("{} redirects more than {} times", origin_of(url), kMaxRedirects), ""};
}

// What a full disk, a quota or a file-size limit is called.
std::string write_error(int code) {
  switch (code) {
    case ENOSPC: return "the disk is full";
    case EDQUOT: return "the disk quota is used up";
    case EFBIG: return "the file would be larger than the system allows";
    default: return fmt::format("the file cannot be written: {}", std::strerror(code));
  }
}

// First byte of "bytes 100-199/200"; -1 when it does not say.
int64_t range_start(const std::string& content_range) {
  long long start = -1;
  return std::sscanf(content_range.c_str(), "bytes %lld-", &start) == 1 ? start : -1;
}

// Appends body bytes to a file, at the place that the answer's status and range say.
struct FileSink {
  Exchange& exchange;
  int fd;
  uint64_t have, size;
  const std::function<void(uint64_t)>& progress;
  bool started = false;

  bool begin() {
    started = true;
    const HttpAnswer& answer = exchange.answer;
    if (answer.status == 206 && range_start(answer.header("content-range")) == static_cast<int64_t>(have)) return true;
    have = 0;  // the whole file comes, or a range that was not asked for
    if (answer.status == 206) return fail(ErrorKind::corrupt, "the server sent another range than asked for");
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0) return fail(ErrorKind::io, write_error(errno), "disk");
    return true;
  }

  bool fail(ErrorKind kind, std::string why, std::string param = "") {
    exchange.sink_error = Error{kind, std::move(why), std::move(param)};
    return false;
  }

  bool write(const char* data, size_t count) {
    if (exchange.answer.status != 200 && exchange.answer.status != 206) return true;  // an error page: not for the file
    if (!started && !begin()) return false;
    if (size && count > size - std::min(size, have))
      return fail(ErrorKind::corrupt, "the server sends more bytes than the file has");
    while (count > 0) {
      ssize_t written = ::write(fd, data, count);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return fail(ErrorKind::io, write_error(errno), "disk");
      data += written;
      count -= static_cast<size_t>(written);
      have += static_cast<uint64_t>(written);
    }
    if (progress) progress(have);
    return true;
  }
};

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::string origin_of(const std::string& url) {
  CurlUrl parsed(curl_url(), curl_url_cleanup);
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  auto part = [&](CURLUPart which, unsigned flags) {
    char* text = nullptr;
    std::string value = curl_url_get(parsed.get(), which, &text, flags) == CURLUE_OK ? text : "";
    curl_free(text);
    return lower(value);
  };
  std::string scheme = part(CURLUPART_SCHEME, 0), host = part(CURLUPART_HOST, 0);
  if (host.empty() || (scheme != "http" && scheme != "https")) return "";
  return scheme + "://" + host + ":" + part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

std::string resolve_url(const std::string& base, const std::string& reference) {
  if (reference.empty()) return "";
  CurlUrl parsed(curl_url(), curl_url_cleanup);
  if (curl_url_set(parsed.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK) return "";
  if (curl_url_set(parsed.get(), CURLUPART_URL, reference.c_str(), 0) != CURLUE_OK) return "";
  char* text = nullptr;
  std::string resolved = curl_url_get(parsed.get(), CURLUPART_URL, &text, 0) == CURLUE_OK ? text : "";
  curl_free(text);
  return resolved;
}

std::string encode_path(const std::string& path) {
  std::string encoded;
  for (unsigned char c : path) {
    bool plain = (c < 0x80 && std::isalnum(c)) || std::strchr("-._~/", c);
    encoded += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return encoded;
}

Result<HttpAnswer> http_head(const HttpClient& client, const std::string& url) {
  Exchange exchange{&client, {}, 0, {}, {}};
  return request(exchange, url, true, "");
}

Result<HttpAnswer> http_get(const HttpClient& client, const std::string& url, size_t limit, std::string& body) {
  Exchange exchange{&client, {}, 0, {}, {}};
  exchange.sink = [&](const char* data, size_t size) {
    if (is_redirect(exchange.answer.status)) return true;
    if (size > limit - std::min(limit, body.size())) {
      exchange.sink_error = Error{ErrorKind::io, fmt::format("{} sends more than {} bytes", origin_of(url), limit), ""};
      return false;
    }
    body.append(data, size);
    return true;
  };
  return request(exchange, url, false, "");
}

Result<HttpAnswer> http_download(const HttpClient& client, const std::string& url, int fd, uint64_t have, uint64_t size,
                                 const std::function<void(uint64_t)>& progress, uint64_t& kept) {
  Exchange exchange{&client, {}, 0, {}, {}};
  FileSink file{exchange, fd, have, size, progress};
  exchange.sink = [&](const char* data, size_t count) { return file.write(data, count); };
  Result<HttpAnswer> answer = request(exchange, url, false, have > 0 ? fmt::format("{}-", have) : "");
  kept = file.have;
  return answer;
}

}  // namespace drafthorse
