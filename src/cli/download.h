#pragma once
// One file of the hub: what it is, and how it gets to disk whole or not at all.

#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/http_client.h"
#include "core/result.h"

namespace drafthorse {

struct RemoteFile {
  std::string url;     // where to ask for the bytes
  std::string etag;    // its name in the cache: SHA-256 of large files, git blob SHA-1 of small ones
  std::string commit;  // of the repository; empty when the server does not say
  uint64_t size = 0;   // bytes; 0: the server does not say
};

// Asks for the file's headers. `shown` and `repo` name it in errors. Errors: as pull_from_hub.
Result<RemoteFile> describe_remote(const HttpClient& client, const std::string& url, const std::string& shown,
                                   const std::string& repo);

// Fetches the file to `target`: into TARGET.incomplete (resumed when it is there), then digest, then rename.
// Says what it does on stderr under the name `label`. Errors: io, corrupt, cancelled.
Status download_file(const HttpClient& client, const RemoteFile& remote, const std::filesystem::path& target,
                     const std::string& label, bool terminal);

// What an HTTP status of the hub means to the user, and what to do about it.
Error hub_error(const HttpAnswer& answer, const HttpClient& client, const std::string& shown, const std::string& repo,
                bool token_sent);

}  // namespace drafthorse
