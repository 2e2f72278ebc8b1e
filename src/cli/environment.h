#pragma once
// The only place that reads environment variables: where the user's folders are, and Hugging Face's own settings. Where
// the program itself lies is found here too.

#include <filesystem>
#include <string>
#include <vector>

namespace drafthorse {

struct Environment {
  std::filesystem::path hub_cache;  // HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub
  std::string hub_endpoint;         // HF_ENDPOINT without a trailing slash, else the public hub
  std::string hub_token;            // HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; empty: none
  std::filesystem::path models;     // our own model folder: XDG_CACHE_HOME or ~/.cache, then drafthorse/models
  std::filesystem::path state;      // chat history: XDG_STATE_HOME or ~/.local/state, then drafthorse
  std::string term;                 // TERM
  bool no_color = false;            // NO_COLOR is set
  // Folders that may hold the models that come with the program, by where the binary lies: a build folder of the source
  // tree, beside the binary, an installed prefix. The one that exists moves with the program.
  std::vector<std::filesystem::path> shipped_models;
};

Environment read_environment();

}  // namespace drafthorse
