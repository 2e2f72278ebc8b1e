#include "cli/environment.h"

#include <cstdlib>
#include <fstream>

#ifdef __APPLE__
#include <mach-o/dyld.h>

#include <array>
#endif

namespace drafthorse {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::filesystem::path folder(const char* name, const std::filesystem::path& otherwise) {
  std::string value = variable(name);
  return value.empty() ? otherwise : std::filesystem::path(value);
}

std::string without_space(std::string text) {
  size_t end = text.find_last_not_of(" \t\r\n");
  text.resize(end == std::string::npos ? 0 : end + 1);
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  return text;
}

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The running binary with links resolved; empty where the system does not say.
std::filesystem::path program_path() {
  std::error_code error;
#ifdef __APPLE__
  std::array<char, 4096> name{};
  uint32_t size = name.size();
  if (_NSGetExecutablePath(name.data(), &size) != 0) return {};
  std::filesystem::path path = std::filesystem::canonical(name.data(), error);
#else
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
#endif
  return error ? std::filesystem::path() : path;
}

std::vector<std::filesystem::path> shipped_models() {
  std::filesystem::path program = program_path();
  if (program.empty()) return {};
  std::vector<std::filesystem::path> folders;
  for (const char* place : {"../models", "../../models", "models", "../share/drafthorse/models"})
    folders.push_back((program.parent_path() / place).lexically_normal());
  return folders;
}

}  // namespace

Environment read_environment() {
  Environment environment;
  std::filesystem::path home = folder("HOME", ".");
  std::filesystem::path cache = folder("XDG_CACHE_HOME", home / ".cache");
  std::filesystem::path hf_home = folder("HF_HOME", cache / "huggingface");

  environment.hub_cache = folder("HF_HUB_CACHE", hf_home / "hub");
  environment.hub_endpoint = variable("HF_ENDPOINT");
  if (environment.hub_endpoint.empty()) environment.hub_endpoint = "https://huggingface.co";
  while (environment.hub_endpoint.ends_with('/')) environment.hub_endpoint.pop_back();
  environment.hub_token = without_space(variable("HF_TOKEN"));
  if (environment.hub_token.empty()) {
    environment.hub_token = without_space(first_line(folder("HF_TOKEN_PATH", hf_home / "token")));
  }
  environment.models = cache / "drafthorse" / "models";
  environment.state = folder("XDG_STATE_HOME", home / ".local" / "state") / "drafthorse";
  environment.term = variable("TERM");
  environment.no_color = !variable("NO_COLOR").empty();
  environment.shipped_models = shipped_models();
  return environment;
}

}  // namespace drafthorse
