#include "cli/hub.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/json.hpp>

#include "cli/download.h"
#include "cli/http_client.h"
#include "cli/hub_cache.h"
#include "core/safe_path.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr size_t kMaxListing = 32 << 20;
// What a safetensors model needs beside its shards; those that a repository has are fetched.
constexpr std::array<std::string_view, 10> kSideFiles = {"config.json",
                                                         "generation_config.json",
                                                         "tokenizer.json",
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "chat_template.jinja",
                                                         "chat_template.json",
                                                         "added_tokens.json",
                                                         "vocab.json",
                                                         "merges.txt"};
// The quantisations to take from a repository of GGUF files when none is named, best compromise first.
constexpr std::array<std::string_view, 8> kPreferred = {"Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0",
                                                        "Q5_K_M", "Q5_0",   "Q6_K", "Q8_0"};

struct Listing {
  std::string commit;
  std::vector<std::string> files;
};

Result<Listing> list_repository(const HttpClient& client, const HubName& name) {
  std::string url =
      fmt::format("{}/api/models/{}/revision/{}", client.origin, encode_path(name.repo), encode_path(name.revision));
  std::string body;
  Result<HttpAnswer> answer = http_get(client, url, kMaxListing, body);
  if (!answer) return answer.error();
  if (answer->status != 200) return hub_error(*answer, client, name.text(), name.repo, !client.token.empty());
  boost::system::error_code error;
  json::value value = json::parse(body, error);
  const json::object* root = error ? nullptr : value.if_object();
  const json::value* sha = root ? root->if_contains("sha") : nullptr;
  const json::value* siblings = root ? root->if_contains("siblings") : nullptr;
  if (!sha || !sha->is_string() || !siblings || !siblings->is_array()) {
    return Error{ErrorKind::io, fmt::format("{} answered something that is no listing of files", origin_of(url)), ""};
  }
  Listing listing;
  listing.commit = sha->as_string();
  for (const json::value& sibling : siblings->as_array()) {
    const json::object* object = sibling.if_object();
    const json::value* file = object ? object->if_contains("rfilename") : nullptr;
    if (file && file->is_string() && is_safe_path(file->as_string())) listing.files.emplace_back(file->as_string());
  }
  if (!is_safe_component(listing.commit)) return Error{ErrorKind::io, "the hub names a strange commit", ""};
  return listing;
}

bool has(const Listing& listing, std::string_view file) {
  return std::ranges::find(listing.files, file) != listing.files.end();
}

std::vector<std::string> gguf_files(const Listing& listing) {
  std::vector<std::string> files;
  for (const std::string& file : listing.files) {
    bool later_part = split_parts(file) > 1 && file != split_part_name(file, 1);
    bool projector = file.find("mmproj") != file.npos;
    if (file.ends_with(".gguf") && !later_part && !projector) files.push_back(file);
  }
  return files;
}

// `file` and the other parts of its split.
std::vector<std::string> with_parts(const std::string& file) {
  int parts = split_parts(file);
  if (parts == 1) return {file};
  std::vector<std::string> files;
  for (int part = 1; part <= parts; ++part) files.push_back(split_part_name(file, part));
  return files;
}

Error no_such_file(const HubName& name, const std::string& what, const std::vector<std::string>& choices) {
  return {ErrorKind::not_found,
          fmt::format("{} has no {}; it has: {}", name.text(), what,
                      choices.empty() ? "no GGUF or safetensors files" : fmt::format("{}", fmt::join(choices, ", "))),
          "model"};
}

// GGUF files to fetch: those of the named quantisation, else of the preferred one, else the only one there is.
Result<std::vector<std::string>> choose_gguf(const Listing& listing, const HubName& name) {
  std::vector<std::string> files = gguf_files(listing);
  std::vector<std::string_view> wanted(kPreferred.begin(), kPreferred.end());
  if (!name.quant.empty()) wanted = {name.quant};
  for (std::string_view quant : wanted) {
    auto found = std::ranges::find_if(files, [&](const std::string& file) { return has_quant(file, quant); });
    if (found != files.end()) return with_parts(*found);
  }
  if (name.quant.empty() && files.size() == 1) return with_parts(files[0]);
  return no_such_file(name, name.quant.empty() ? "file that is the obvious choice" : name.quant, files);
}

std::vector<std::string> safetensors_files(const Listing& listing) {
  std::vector<std::string> files;
  for (std::string_view file : kSideFiles) {
    if (has(listing, file)) files.emplace_back(file);
  }
  if (has(listing, "model.safetensors.index.json")) files.emplace_back("model.safetensors.index.json");
  for (const std::string& file : listing.files) {
    bool top_level = file.find('/') == file.npos;
    // "consolidated" is a second copy of the weights in another layout.
    if (top_level && file.ends_with(".safetensors") && !file.starts_with("consolidated")) files.push_back(file);
  }
  return files;
}

Result<std::vector<std::string>> choose_files(const Listing& listing, const HubName& name) {
  if (!name.file.empty()) {
    std::vector<std::string> files = with_parts(name.file);
    for (const std::string& file : files) {
      if (!has(listing, file)) return no_such_file(name, file, gguf_files(listing));
    }
    return files;
  }
  bool safetensors =
      name.quant.empty() && has(listing, "config.json") &&
      std::ranges::any_of(listing.files, [](const std::string& f) { return f.ends_with(".safetensors"); });
  return safetensors ? safetensors_files(listing) : choose_gguf(listing, name);
}

// Fetches one file into the cache and links it into the snapshot. Returns its commit.
Status fetch_file(const HttpClient& client, const HubName& name, const std::string& revision, const std::string& file,
                  const HubOptions& options, std::string& commit) {
  std::string url = fmt::format("{}/{}/resolve/{}/{}", client.origin, encode_path(name.repo), encode_path(revision),
                                encode_path(file));
  Result<RemoteFile> remote = describe_remote(client, url, name.text(), name.repo);
  if (!remote) return remote.error();
  if (commit.empty()) commit = remote->commit;
  if (!is_safe_component(commit))
    return Error{ErrorKind::io, fmt::format("{} does not say which commit {} is of", client.origin, file), ""};
  if (!options.sha256.empty() && remote->etag != options.sha256) {
    return Error{ErrorKind::corrupt, fmt::format("{} of {} is another file than the pinned one", file, name.repo), ""};
  }
  fs::path blob = repo_folder(options.cache, name.repo) / "blobs" / remote->etag;
  std::error_code error;
  if (!fs::is_regular_file(blob, error)) {
    auto wait = [&] { fmt::print(stderr, "{}: another program is downloading it; waiting\n", file); };
    Result<FileLock> lock = FileLock::take(lock_file(options.cache, name.repo, remote->etag), wait, options.cancelled);
    if (!lock) return lock.error();
    if (!fs::is_regular_file(blob, error)) {
      Status status = download_file(client, *remote, blob, file, options.terminal);
      if (!status) return status;
    }
  }
  return link_snapshot(options.cache, name.repo, commit, file, remote->etag);
}

}  // namespace

HubOptions hub_options(const Environment& environment) {
  HubOptions options;
  options.endpoint = environment.hub_endpoint;
  options.token = environment.hub_token;
  options.cache = environment.hub_cache;
  return options;
}

std::optional<fs::path> find_in_hub_cache(const fs::path& cache, const HubName& name) {
  std::optional<fs::path> snapshot = find_snapshot(cache, name.repo, name.revision);
  if (!snapshot) return std::nullopt;
  std::error_code error;
  auto complete = [&](const std::string& file) {
    return std::ranges::all_of(with_parts(file),
                               [&](const std::string& part) { return fs::is_regular_file(*snapshot / part, error); });
  };
  if (!name.file.empty()) {
    return complete(name.file) ? std::optional(*snapshot / name.file) : std::nullopt;
  }
  if (name.quant.empty() && is_complete_safetensors(*snapshot)) return snapshot;
  Listing listing;
  for (fs::recursive_directory_iterator it(*snapshot, error), end; !error && it != end; it.increment(error)) {
    listing.files.push_back(it->path().lexically_relative(*snapshot).string());
  }
  std::ranges::sort(listing.files);
  Result<std::vector<std::string>> files = choose_gguf(listing, name);
  if (!files || !complete(files->front())) return std::nullopt;
  return *snapshot / files->front();
}

Result<fs::path> pull_from_hub(const HubName& name, const HubOptions& options) {
  HttpClient client{options.token, options.endpoint, options.connect_seconds, options.cancelled};
  if (origin_of(client.origin).empty()) {
    return Error{ErrorKind::invalid_argument,
                 fmt::format("HF_ENDPOINT '{}' is no http:// or https:// address", client.origin), ""};
  }
  std::vector<std::string> files;
  std::string commit;
  std::string revision = name.revision;
  if (!name.file.empty() && split_parts(name.file) == 1) {
    files = {name.file};
  } else {
    Result<Listing> listing = list_repository(client, name);
    if (!listing) return listing.error();
    Result<std::vector<std::string>> chosen = choose_files(*listing, name);
    if (!chosen) return chosen.error();
    files = std::move(*chosen);
    commit = revision = listing->commit;  // all files of one commit, whatever is pushed meanwhile
  }
  for (const std::string& file : files) {
    Status status = fetch_file(client, name, revision, file, options, commit);
    if (!status) return status.error();
  }
  Status status = write_ref(options.cache, name.repo, name.revision, commit);
  if (!status) return status.error();
  fs::path snapshot = repo_folder(options.cache, name.repo) / "snapshots" / commit;
  bool folder = std::ranges::find(files, "config.json") != files.end() && name.file.empty();
  return folder ? snapshot : snapshot / files.front();
}

}  // namespace drafthorse
