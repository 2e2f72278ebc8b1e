#pragma once
// Everything that the command line can say, parsed once.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/environment.h"
#include "core/result.h"
#include "server/options.h"

namespace drafthorse {

struct Options {
  std::string command;                     // "serve", "run", "generate", "pull", "list", "inspect", "bench", "selftest"
  std::string what;                        // bench: "kernels", "model" or "draft"
  std::vector<std::string> bench_formats;  // bench kernels; empty: the usual ones
  std::vector<int> bench_rows;
  std::vector<std::string> bench_drafts;  // bench draft: "replay:0.7" and the like
  std::vector<int> bench_depths;          // empty: the usual five
  int bench_repeats = 3;
  Environment environment;

  // The model and how it runs.
  std::string model;  // empty: the default model
  std::filesystem::path models_dir;
  std::string mtp;  // where the drafting head lies; empty: in the model or beside it
  std::string backend = "auto", isa = "auto", draft = "auto";
  int threads = 0, context = 0;          // 0: chosen
  uint64_t memory = 0;                   // bytes; 0: chosen
  int max_draft = 0, prefill_chunk = 0;  // 0: chosen

  // How it samples; what is absent comes from the model.
  std::optional<float> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int> top_k, max_tokens;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool ignore_eos = false;

  // What is asked.
  std::string system;
  std::optional<std::string> prompt;
  std::filesystem::path prompt_file;
  bool raw = false;  // no chat template

  ServerOptions server;
  std::string model_id;          // what the API calls the model
  int parallel = 0, queue = -1;  // requests that share steps; requests that wait. 0, -1: the engine's own

  bool json = false, quiet = false;
};

// The help or version text that was asked for.
struct HelpText {
  std::string text;
};

// Parses argv. Error: invalid_argument, one line, with what may have been meant.
Result<std::variant<Options, HelpText>> parse_options(int argc, const char* const* argv,
                                                      const Environment& environment);

// "8G", "512M", "1.5GiB", "1000": bytes; K, M, G, T are powers of 1024.
Result<uint64_t> parse_bytes(const std::string& text);

}  // namespace drafthorse
