#include "cli/environment.h"

#include <cstdlib>
#include <fstream>

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
  return environment;
}

}  // namespace drafthorse
