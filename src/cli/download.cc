#include "cli/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "cli/digest.h"
#include "cli/model_name.h"
#include "cli/progress_bar.h"
#include "core/safe_path.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 4;  // without progress; an attempt that brought bytes starts the count again

uint64_t to_number(const std::string& text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// W/"abc" and "abc" are abc.
std::string bare_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

bool is_hex(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

class File {
 public:
  explicit File(const fs::path& path) : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  uint64_t size() const {
    struct stat info {};
    return ::fstat(fd_, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  }

 private:
  int fd_;
};

// Room for what is still to come; a partial file is worth more than finding out at 99 %.
Status check_space(const fs::path& folder, uint64_t needed, const std::string& label) {
  std::error_code error;
  fs::space_info space = fs::space(folder, error);
  if (error || space.available >= needed) return {};
  return Error{
      ErrorKind::io,
      fmt::format(
          "{}: the disk is full: {} holds {} more, {} are needed; free some space and run the same command again",
          label, folder.string(), human_bytes(space.available), human_bytes(needed)),
      "disk"};
}

// The digest that the file's name promises. A wrong file is removed: resuming it would never help.
Status verify(const HttpClient& client, const RemoteFile& remote, const fs::path& partial, const std::string& label) {
  Result<std::string> found = std::string();
  if (is_hex(remote.etag, 64)) {
    found = sha256_of_file(partial, [&](uint64_t, uint64_t) { return !(client.cancelled && client.cancelled()); });
  } else if (is_hex(remote.etag, 40)) {
    found = git_blob_of_file(partial);
  } else {
    return {};  // some mirrors name files by other means; size was checked
  }
  if (!found) return found.error();
  if (*found == remote.etag) return {};
  std::error_code error;
  fs::remove(partial, error);
  return Error{
      ErrorKind::corrupt,
      fmt::format("{}: wrong contents: digest {} expected, {} found; the file was removed, run the same command again",
                  label, remote.etag, *found),
      ""};
}

// The place where the bytes lie may be signed and expire, so each attempt asks the hub anew and follows.
Result<HttpAnswer> attempt(const HttpClient& client, const RemoteFile& remote, const fs::path& partial,
                           ProgressBar& bar, uint64_t& kept) {
  File file(partial);
  if (file.fd() < 0) {
    return Error{ErrorKind::io, fmt::format("{} cannot be written: {}", partial.string(), std::strerror(errno)), ""};
  }
  kept = file.size();
  return http_download(
      client, remote.url, file.fd(), kept, remote.size, [&](uint64_t done) { bar.update(done, remote.size); }, kept);
}

bool worth_retrying(const Result<HttpAnswer>& answer) {
  if (answer) return answer->status >= 500 || answer->status == 429;
  return answer.error().kind == ErrorKind::io && answer.error().param.empty();
}

Error interrupted(const Error& error, const std::string& label, uint64_t kept, uint64_t size) {
  std::string rest = kept == 0 ? "run the same command again"
                               : fmt::format("{}{} are kept and the same command resumes", human_bytes(kept),
                                             size ? " of " + human_bytes(size) : "");
  return {error.kind, fmt::format("{}: {}; {}", label, error.message, rest), error.param};
}

Status fetch(const HttpClient& client, const RemoteFile& remote, const fs::path& partial, const std::string& label,
             bool terminal) {
  uint64_t kept = File(partial).size();
  if (remote.size && kept > remote.size) {
    fs::resize_file(partial, 0);
    kept = 0;
  }
  ProgressBar bar(label, terminal, kept);
  for (int attempts = 0; remote.size == 0 || kept < remote.size;) {
    uint64_t before = kept;
    Result<HttpAnswer> answer = attempt(client, remote, partial, bar, kept);
    bool good = answer && (answer->status == 200 || answer->status == 206);
    if (good && (remote.size == 0 || kept == remote.size)) break;
    if (answer && answer->status == 416) fs::resize_file(partial, kept = 0);
    if (good) answer = Error{ErrorKind::io, "the server closed the connection before the end", ""};
    attempts = kept > before ? 1 : attempts + 1;
    if (attempts < kAttempts && (worth_retrying(answer) || (answer && answer->status == 416))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200 << attempts));
      if (!client.cancelled || !client.cancelled()) continue;
      answer = Error{ErrorKind::cancelled, "stopped", ""};
    }
    if (answer) return hub_error(*answer, client, label, "", !client.token.empty());
    return interrupted(answer.error(), label, kept, remote.size);
  }
  bar.update(kept, remote.size);
  bar.finish();
  return {};
}

}  // namespace

Error hub_error(const HttpAnswer& answer, const HttpClient& client, const std::string& shown, const std::string& repo,
                bool token_sent) {
  std::string code = answer.header("x-error-code");
  std::string page = client.origin + "/" + repo;
  if (answer.status == 403 || code == "GatedRepo") {
    return {
        ErrorKind::unauthorized,
        fmt::format("{}: access is refused ({}): accept the licence at {} and set HF_TOKEN to a token of that account",
                    shown, answer.status, page),
        "model"};
  }
  if (answer.status == 401) {
    std::string what = token_sent
                           ? "the token in HF_TOKEN is not accepted, or the repository does not exist"
                           : "the repository does not exist, is private or gated: check the name, or set HF_TOKEN";
    return {ErrorKind::unauthorized, fmt::format("{}: {} ({})", shown, what, answer.status), "model"};
  }
  if (answer.status == 404) {
    std::string what = code == "RevisionNotFound" ? "no such revision"
                       : code == "EntryNotFound"  ? "no such file"
                                                  : "not found";
    return {ErrorKind::not_found, fmt::format("{}: {} on {}; see {}", shown, what, client.origin, page), "model"};
  }
  if (answer.status == 429)
    return {ErrorKind::io, fmt::format("{}: the hub wants fewer requests (429): try again later", shown), ""};
  return {ErrorKind::io,
          fmt::format("{}: {} answered status {}: try again later", shown, origin_of(answer.url), answer.status), ""};
}

Result<RemoteFile> describe_remote(const HttpClient& client, const std::string& url, const std::string& shown,
                                   const std::string& repo) {
  Result<HttpAnswer> answer = http_head(client, url);
  if (!answer) return answer.error();
  bool redirect = answer->status >= 300 && answer->status < 400;
  if (answer->status != 200 && !redirect) return hub_error(*answer, client, shown, repo, !client.token.empty());
  RemoteFile remote;
  remote.url = url;
  remote.commit = answer->header("x-repo-commit");
  std::string linked = answer->header("x-linked-etag");
  remote.etag = bare_etag(linked.empty() ? answer->header("etag") : linked);
  std::string size = answer->header("x-linked-size");
  remote.size = to_number(size.empty() && !redirect ? answer->header("content-length") : size);
  if (!is_safe_component(remote.etag)) {
    return Error{ErrorKind::io,
                 fmt::format("{}: {} names no ETag for it, so it cannot be cached", shown, origin_of(url)), ""};
  }
  return remote;
}

Status download_file(const HttpClient& client, const RemoteFile& remote, const fs::path& target,
                     const std::string& label, bool terminal) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error)
    return Error{ErrorKind::io, fmt::format("{} cannot be made: {}", target.parent_path().string(), error.message()),
                 ""};
  fs::path partial = target;
  partial += ".incomplete";
  if (File(partial).fd() < 0) {
    return Error{ErrorKind::io, fmt::format("{} cannot be written: {}", partial.string(), std::strerror(errno)), ""};
  }
  uint64_t have = File(partial).size();
  if (remote.size > have) {
    Status space = check_space(target.parent_path(), remote.size - have, label);
    if (!space) return space;
  }
  Status status = fetch(client, remote, partial, label, terminal);
  if (!status) return status;
  status = verify(client, remote, partial, label);
  if (!status) return status;
  fs::rename(partial, target, error);
  if (error) return Error{ErrorKind::io, fmt::format("{} cannot be written: {}", target.string(), error.message()), ""};
  return {};
}

}  // namespace drafthorse
