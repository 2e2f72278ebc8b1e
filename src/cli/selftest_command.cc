// selftest: on this machine and with this model, nothing but the prompt and the seed changes the answer. Without a model
// it takes the demo model, which has every kind of layer and a drafting head and needs no download.

#include <algorithm>
#include <array>
#include <cmath>
#include <future>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_name.h"
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
  bool together = false;  // all requests at once
};

struct Check {
  std::string name, outcome, detail;  // outcome: "ok", "FAILED", "skipped"
};

struct Answers {
  std::vector<std::vector<int32_t>> tokens;
  int64_t proposed = 0, accepted = 0;  // drafted tokens
};

// Each prompt greedy and seeded.
std::vector<CompletionRequest> make_requests(const Variant& variant) {
  std::vector<CompletionRequest> requests;
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
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

Result<Answers> generate_all(const std::shared_ptr<LoadedModel>& model, const Variant& variant) {
  Answers answers;
  std::vector<std::future<Result<WholeAnswer>>> waiting;
  for (CompletionRequest& request : make_requests(variant)) {
    auto policy = variant.together ? std::launch::async : std::launch::deferred;
    waiting.push_back(
        std::async(policy, [model, request = std::move(request)] { return wait_for_answer(model, request, {}); }));
  }
  for (std::future<Result<WholeAnswer>>& answer : waiting) {
    Result<WholeAnswer> result = answer.get();
    if (!result) return result.error();
    if (interrupted()) return Error{ErrorKind::cancelled, "stopped", ""};
    answers.tokens.push_back(result->tokens);
    answers.proposed += result->usage.stats.speculation.proposed;
    answers.accepted += result->usage.stats.speculation.accepted;
  }
  return answers;
}

Check compare(const Variant& variant, const Answers& expected, const Answers& found) {
  size_t tokens = 0;
  for (size_t i = 0; i < expected.tokens.size(); ++i) {
    auto [a, b] = std::ranges::mismatch(expected.tokens[i], found.tokens[i]);
    if (a != expected.tokens[i].end() || b != found.tokens[i].end()) {
      return {variant.name, "FAILED",
              fmt::format("answer {} differs from token {} on", i + 1, a - expected.tokens[i].begin())};
    }
    tokens += expected.tokens[i].size();
  }
  std::string detail = fmt::format("{} answers, {} tokens equal", expected.tokens.size(), tokens);
  if (found.proposed > 0) detail += fmt::format(", {} of {} drafts right", found.accepted, found.proposed);
  if (variant.draft == "mtp" && found.proposed == 0) return {variant.name, "FAILED", "the head drafted nothing"};
  return {variant.name, "ok", detail};
}

// Variants of the requests: drafting, and company.
std::vector<Variant> request_variants(const Options& options, bool head) {
  std::vector<Variant> variants = {{"drafting auto", options, "auto"},
                                   {"prompt lookup, drafts of 1", options, "lookup", 1},
                                   {"prompt lookup, drafts of 8", options, "lookup", 8}};
  if (head) {
    variants.push_back({"drafting head, drafts of 1", options, "mtp", 1});
    variants.push_back({"drafting head, drafts of 4", options, "mtp", 4});
    variants.push_back({"beside others, drafting head", options, "mtp", 3, true});
  }
  variants.push_back({"beside others, no drafts", options, "off", 0, true});
  variants.push_back({"beside others, drafting auto", options, "auto", 0, true});
  variants.push_back({"the same once more", options, "off"});
  return variants;
}

// Variants that need the model loaded anew: other threads, other chunks of the prompt, other kernels.
std::vector<Variant> reloads(const Options& options, int threads) {
  std::vector<Variant> variants;
  auto add = [&](const std::string& name, auto change) {
    Variant variant{name, options};
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
  return compare(variant, expected, *found);
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
  Result<Answers> expected = generate_all(*model, {"", options, "off"});
  if (!expected) return expected.error();
  for (const Variant& variant : request_variants(options, (*model)->network.mtp != nullptr)) {
    Result<Answers> found = generate_all(*model, variant);
    if (!found) return found.error();
    add(compare(variant, *expected, *found));
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

Status selftest_command(const Options& given) {
  watch_interrupts();
  Options options = given;
  if (options.model.empty()) options.model = demo_model().alias;
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
