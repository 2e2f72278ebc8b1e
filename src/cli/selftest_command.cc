// selftest: on this machine and with this model, nothing but the prompt and the seed changes the answer.

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_setup.h"
#include "cli/whole_answer.h"
#include "core/topology.h"

namespace drafthorse {
namespace {

namespace json = boost::json;

constexpr int kTokens = 24;
constexpr int kBlocksOfPiece = 2;         // of the network that the reference backend runs
constexpr double kReferenceBound = 1e-3;  // largest logit difference over the largest logit

constexpr std::array<std::string_view, 4> kPrompts = {
    "Write a short story about a horse that pulls a plough.",
    "Repeat this list and add one line: alpha = 1; beta = 2; gamma = 3; delta = 4; epsilon = 5;",
    "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n    return",
    "Zähle auf Deutsch von eins bis zwanzig, bitte. \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x90\xB4"};

// One way of running that must give the same tokens as the first.
struct Variant {
  std::string name;
  Options options;  // of the load
  std::string draft = "auto";
  int max_draft = 0;
};

struct Check {
  std::string name, outcome, detail;  // outcome: "ok", "FAILED", "skipped"
};

using Answers = std::vector<std::vector<int32_t>>;

// Each prompt greedy and seeded.
Result<Answers> generate_all(const std::shared_ptr<LoadedModel>& model, const Variant& variant) {
  Answers answers;
  for (std::string_view prompt : kPrompts) {
    for (float temperature : {0.0f, 0.8f}) {
      CompletionRequest request;
      request.prompt = std::string(prompt);
      request.sampling.temperature = temperature;
      request.sampling.seed = 1234;
      request.max_tokens = kTokens;
      request.ignore_eos = true;
      request.draft = variant.draft;
      request.max_draft = variant.max_draft;
      Result<WholeAnswer> result = wait_for_answer(model, request, {});
      if (!result) return result.error();
      if (interrupted()) return Error{ErrorKind::cancelled, "stopped", ""};
      answers.push_back(result->tokens);
    }
  }
  return answers;
}

Check compare(const std::string& name, const Answers& expected, const Answers& found) {
  size_t tokens = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    auto [a, b] = std::ranges::mismatch(expected[i], found[i]);
    if (a != expected[i].end() || b != found[i].end()) {
      return {name, "FAILED", fmt::format("answer {} differs from token {} on", i + 1, a - expected[i].begin())};
    }
    tokens += expected[i].size();
  }
  return {name, "ok", fmt::format("{} answers, {} tokens equal", expected.size(), tokens)};
}

// Variants that need the model loaded anew: other threads, other chunks of the prompt, other kernels.
std::vector<Variant> reloads(const Options& options, int threads) {
  std::vector<Variant> variants;
  auto add = [&](const std::string& name, auto change) {
    Variant variant{name, options, "auto", 0};
    change(variant.options);
    variants.push_back(std::move(variant));
  };
  for (int other : {1, 2, 3}) {
    if (other != threads)
      add(fmt::format("{} thread{}", other, other == 1 ? "" : "s"), [&](Options& o) { o.threads = other; });
  }
  for (int chunk : {1, 7})
    add(fmt::format("prompt in chunks of {}", chunk), [&](Options& o) { o.prefill_chunk = chunk; });
  for (const char* isa : {"portable", "avx2", "avx512", "neon"})
    add(fmt::format("{} kernels", isa), [&](Options& o) { o.isa = isa; });
  return variants;
}

Result<Check> check_reload(const Variant& variant, const Answers& expected) {
  auto model = open_model(variant.options);
  // Kernels that this processor does not have; anything else that keeps the model from loading is an error.
  bool absent = !model && variant.options.isa != "auto" &&
                (model.error().kind == ErrorKind::unsupported || model.error().kind == ErrorKind::invalid_argument);
  if (absent) return Check{variant.name, "skipped", model.error().message};
  if (!model) return model.error();
  Result<Answers> found = generate_all(*model, variant);
  close_model(std::move(*model));
  if (!found) return found.error();
  return compare(variant.name, expected, *found);
}

// Logits of the first blocks, computed by a backend on ids that cover the vocabulary.
Result<std::vector<float>> piece_logits(const Network& piece, BackendOptions backend) {
  backend.context = 64;
  backend.kv_bytes = 0;
  auto model = load_model(piece, backend);
  if (!model) return model.error();
  std::vector<int32_t> ids;
  for (int i = 0; i < 8; ++i)
    ids.push_back(static_cast<int32_t>(int64_t{piece.vocab} * (2 * i + 1) / 17 % piece.vocab));
  std::unique_ptr<State> state = (*model)->new_state();
  Status room = (*model)->reserve(*state, static_cast<int>(ids.size()));
  if (!room) return room.error();
  BatchItem item{state.get(), ids, LogitRows::all};
  RunOutput output = (*model)->run({&item, 1});
  return std::vector<float>(output.logits.begin(), output.logits.end());
}

Result<Check> check_reference(const LoadedModel& model, const Options& options) {
  Network piece = model.network;
  if (piece.blocks.size() > kBlocksOfPiece) piece.blocks.resize(kBlocksOfPiece);
  BackendOptions backend = load_options(options, "").backend;
  Result<std::vector<float>> found = piece_logits(piece, backend);
  if (!found) return found.error();
  backend.backend = "reference";
  Result<std::vector<float>> expected = piece_logits(piece, backend);
  if (!expected) return expected.error();
  double largest = 0, difference = 0;
  for (size_t i = 0; i < expected->size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>((*expected)[i])));
    difference = std::max(difference, std::abs(static_cast<double>((*expected)[i]) - static_cast<double>((*found)[i])));
  }
  bool good = !expected->empty() && expected->size() == found->size() && difference <= kReferenceBound * largest;
  return Check{fmt::format("reference backend, {} blocks", piece.blocks.size()), good ? "ok" : "FAILED",
               fmt::format("largest logit {:.3g}, largest difference {:.2g}", largest, difference)};
}

void print_check(const Check& check, const Options& options) {
  if (options.json) return;
  fmt::print("{:<8} {:<32} {}\n", check.outcome, check.name, check.detail);
  std::fflush(stdout);
}

// Runs every check, in order; stops at the first that cannot run.
Status run_checks(const Options& options, std::vector<Check>& checks, std::string& machine) {
  auto add = [&](Check check) {
    print_check(check, options);
    checks.push_back(std::move(check));
  };
  auto model = open_model(options);
  if (!model) return model.error();
  machine = (*model)->engine->model().description();
  if (!options.json) fmt::print("{}, {}\n", (*model)->id, machine);
  Result<Answers> expected = generate_all(*model, {"", options, "off", 0});
  if (!expected) return expected.error();
  for (const Variant& variant :
       {Variant{"drafting auto", options, "auto", 0}, Variant{"drafts of up to 1", options, "lookup", 1},
        Variant{"drafts of up to 8", options, "lookup", 8}, Variant{"the same once more", options, "off", 0}}) {
    Result<Answers> found = generate_all(*model, variant);
    if (!found) return found.error();
    add(compare(variant.name, *expected, *found));
  }
  if (options.backend != "reference") {
    Result<Check> reference = check_reference(**model, options);
    if (!reference) return reference.error();
    add(*reference);
  }
  close_model(std::move(*model));
  for (const Variant& variant : reloads(options, options.threads > 0 ? options.threads : read_cpu_limits().workers())) {
    Result<Check> check = check_reload(variant, *expected);
    if (!check) return check.error();
    add(*check);
  }
  return {};
}

}  // namespace

Status selftest_command(const Options& options) {
  watch_interrupts();
  std::vector<Check> checks;
  std::string machine;
  Status status = run_checks(options, checks, machine);
  if (!status) return status;
  auto count = [&](std::string_view outcome) { return std::ranges::count(checks, outcome, &Check::outcome); };
  if (options.json) {
    json::array array;
    for (const Check& check : checks)
      array.push_back({{"name", check.name}, {"outcome", check.outcome}, {"detail", check.detail}});
    fmt::print("{}\n",
               json::serialize(json::object{{"machine", machine}, {"checks", array}, {"failed", count("FAILED")}}));
  } else {
    fmt::print("{} ok, {} failed, {} skipped\n", count("ok"), count("FAILED"), count("skipped"));
  }
  if (count("FAILED") > 0)
    return Error{ErrorKind::internal, "this build gives wrong answers on this machine: please report the lines above",
                 ""};
  return {};
}

}  // namespace drafthorse
