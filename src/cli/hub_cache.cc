#include "cli/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "cli/model_name.h"
#include "core/safe_path.h"
#include "weights/hub_snapshot.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

Error io_error(const fs::path& path, const std::string& why) {
  return {ErrorKind::io, fmt::format("{}: {}", path.string(), why), ""};
}

// Entries of a folder, sorted; empty when it cannot be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    paths.push_back(it->path());
  std::ranges::sort(paths);
  return paths;
}

uint64_t size_of(const fs::path& file) {
  std::error_code error;
  uint64_t bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// Shards that model.safetensors.index.json names; nothing when the index is absent or makes no sense.
std::optional<std::set<std::string>> indexed_shards(const fs::path& index) {
  std::ifstream in(index, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  boost::system::error_code error;
  boost::json::value json = boost::json::parse(text, error);
  const boost::json::object* map = nullptr;
  if (!error && json.is_object()) {
    if (const auto* value = json.as_object().if_contains("weight_map")) map = value->if_object();
  }
  if (!map) return std::nullopt;
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *map) {
    if (shard.is_string()) shards.emplace(shard.as_string());
  }
  return shards;
}

uint64_t safetensors_bytes(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const fs::path& file : entries(folder)) {
    if (file.extension() == ".safetensors") bytes += size_of(file);
  }
  return bytes;
}

// Models of one folder: whole GGUF files (splits once, by their first part) and the folder itself.
void list_folder(const fs::path& folder, const std::string& prefix, const std::string& folder_name,
                 std::vector<ModelOnDisk>& models) {
  for (const fs::path& file : entries(folder)) {
    if (file.extension() != ".gguf" || !is_file(file)) continue;
    std::string name = file.filename().string();
    int parts = split_parts(name);
    if (parts > 1 && name != split_part_name(name, 1)) continue;
    uint64_t bytes = 0;
    bool whole = true;
    for (int part = 1; part <= parts; ++part) {
      fs::path piece = parts == 1 ? file : folder / split_part_name(name, part);
      whole = whole && is_file(piece);
      bytes += size_of(piece);
    }
    if (whole) models.push_back({prefix + name, file, bytes});
  }
  if (is_complete_safetensors(folder)) models.push_back({folder_name, folder, safetensors_bytes(folder)});
}

}  // namespace

fs::path repo_folder(const fs::path& cache, const std::string& repo) {
  std::string name = repo;
  size_t slash = name.find('/');
  if (slash != name.npos) name.replace(slash, 1, "--");
  return cache / (std::string(kHubRepository) + name);
}

std::optional<fs::path> find_snapshot(const fs::path& cache, const std::string& repo, const std::string& revision) {
  return find_snapshot(repo_folder(cache, repo), revision);
}

std::optional<fs::path> find_blob(const fs::path& cache, const std::string& etag) {
  for (const fs::path& repo : entries(cache)) {
    if (!repo.filename().string().starts_with(kHubRepository)) continue;
    if (fs::path blob = repo / "blobs" / etag; is_file(blob)) return blob;
  }
  return std::nullopt;
}

Status link_snapshot(const fs::path& cache, const std::string& repo, const std::string& commit, const std::string& file,
                     const std::string& etag) {
  fs::path folder = repo_folder(cache, repo);
  fs::path link = folder / "snapshots" / commit / file;
  fs::path target = fs::path("..") / "..";
  for (char c : file) {
    if (c == '/') target /= "..";
  }
  target = target / "blobs" / etag;
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  if (error) return io_error(link.parent_path(), error.message());
  // Made under another name and moved, so that the name never points nowhere.
  fs::path fresh = link;
  fresh += fmt::format(".{}.tmp", ::getpid());
  fs::remove(fresh, error);
  fs::create_symlink(target, fresh, error);
  if (error) return io_error(fresh, error.message());
  fs::rename(fresh, link, error);
  if (error) return io_error(link, error.message());
  return {};
}

Status write_ref(const fs::path& cache, const std::string& repo, const std::string& revision,
                 const std::string& commit) {
  if (revision == commit) return {};
  fs::path file = repo_folder(cache, repo) / "refs" / revision;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  fs::path fresh = file;
  fresh += fmt::format(".{}.tmp", ::getpid());
  std::ofstream out(fresh);
  out << commit;
  out.close();
  if (!out) return io_error(file, "cannot be written");
  fs::rename(fresh, file, error);
  return error ? Status(io_error(file, error.message())) : Status();
}

Result<FileLock> FileLock::take(const fs::path& file, const std::function<void()>& on_wait,
                                const std::function<bool()>& cancelled) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return io_error(file, std::strerror(errno));
  FileLock lock(fd);
  bool said = false;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return io_error(file, std::strerror(errno));
    if (cancelled && cancelled()) return Error{ErrorKind::cancelled, "stopped", ""};
    if (!said && on_wait) on_wait();
    said = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

fs::path lock_file(const fs::path& cache, const std::string& repo, const std::string& etag) {
  return cache / ".locks" / repo_folder(cache, repo).filename() / (etag + ".lock");
}

std::vector<ModelOnDisk> list_hub_cache(const fs::path& cache) {
  std::vector<ModelOnDisk> models;
  for (const fs::path& folder : entries(cache)) {
    std::string repo = folder.filename().string();
    if (!repo.starts_with(kHubRepository)) continue;
    repo.erase(0, 8);
    size_t dashes = repo.find("--");
    if (dashes == repo.npos) continue;
    repo.replace(dashes, 2, "/");
    std::optional<fs::path> main = find_snapshot(cache, repo, "main");
    for (const fs::path& snapshot : entries(folder / "snapshots")) {
      std::string at = main == snapshot ? "" : "@" + snapshot.filename().string();
      size_t before = models.size();
      list_folder(snapshot, "hf:" + repo + ":", "hf:" + repo, models);
      for (size_t i = before; i < models.size(); ++i) models[i].name += at;
    }
  }
  return models;
}

std::vector<ModelOnDisk> list_model_folder(const fs::path& folder) {
  std::vector<ModelOnDisk> models;
  list_folder(folder, "", folder.string(), models);
  for (const fs::path& inner : entries(folder)) {
    std::error_code error;
    if (fs::is_directory(inner, error))
      list_folder(inner, inner.filename().string() + "/", inner.filename().string(), models);
  }
  return models;
}

bool is_complete_safetensors(const fs::path& folder) {
  if (!is_file(folder / "config.json")) return false;
  fs::path index = folder / "model.safetensors.index.json";
  if (!is_file(index)) {
    return std::ranges::any_of(entries(folder),
                               [](const fs::path& p) { return p.extension() == ".safetensors" && is_file(p); });
  }
  auto shards = indexed_shards(index);
  return shards &&
         std::ranges::all_of(*shards, [&](const std::string& s) { return is_safe_path(s) && is_file(folder / s); });
}

int split_parts(std::string_view file) {
  constexpr std::string_view tail = "-00000-of-00000.gguf";
  if (file.size() < tail.size()) return 1;
  std::string_view end = file.substr(file.size() - tail.size());
  int parts = 0;
  for (size_t i = 0; i < tail.size(); ++i) {
    bool digit = std::isdigit(static_cast<unsigned char>(end[i]));
    if (tail[i] == '0' ? !digit : end[i] != tail[i]) return 1;
    if (i > 9 && digit) parts = parts * 10 + (end[i] - '0');
  }
  return std::max(parts, 1);
}

std::string split_part_name(std::string_view file, int part) {
  constexpr size_t kTail = 20;
  std::string_view stem = file.substr(0, file.size() - kTail);
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, part, split_parts(file));
}

bool has_quant(std::string_view file, std::string_view quant) {
  auto lower = [](std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
    return result;
  };
  std::string where = lower(file), what = lower(quant);
  auto is_word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  for (size_t at = where.find(what); at != where.npos; at = where.find(what, at + 1)) {
    size_t end = at + what.size();
    if ((at == 0 || !is_word(where[at - 1])) && (end == where.size() || !is_word(where[end]))) return true;
  }
  return false;
}

}  // namespace drafthorse
