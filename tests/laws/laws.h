#pragma once
// Law 1 as a test: whatever may change the speed of an answer may not change its tokens.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/backend.h"
#include "engine/engine.h"
#include "support/collecting_sink.h"

namespace drafthorse::test {

// Makes a fresh model; nullptr where the machine lacks the instruction set.
using ModelMaker = std::function<std::unique_ptr<Model>(int threads, const std::string& isa)>;

// The CPU backend's model of `network`, with room for `context` positions a sequence; nullptr where the machine lacks the
// instruction set. kv_bytes 0: room for one full context.
inline std::unique_ptr<Model> make_model(const Network& network, int threads, const std::string& isa, int context,
                                         uint64_t kv_bytes = 0) {
  BackendOptions options;
  options.backend = "cpu";
  options.threads = threads;
  options.isa = isa;
  options.context = context;
  options.kv_bytes = kv_bytes;
  auto model = load_model(network, options);
  if (!model) {
    EXPECT_NE(isa, "auto") << model.error().message;
    return nullptr;
  }
  return std::move(*model);
}

struct Subject {
  ModelMaker make;
  std::function<std::shared_ptr<Model>(Model&)> make_head;  // the model's drafting head; empty: none
  std::vector<std::vector<int32_t>> prompts;
  int answer = 24;  // tokens
  std::vector<std::string> isas = {"auto"};
};

// One way to compute answers.
struct Way {
  std::string name;
  int threads = 2;
  std::string isa = "auto";
  int prefill_chunk = 256;
  int together = 1;  // requests that run at once
  std::string draft = "off";
  int max_draft = 0;
  bool fuzz = false;  // a drafter that proposes true and random tokens
  int kept_states = 0;
};

// Knows the right answer and spoils some of it: the drafts that verification must survive.
class FuzzDrafter final : public Drafter {
 public:
  FuzzDrafter(std::vector<int32_t> truth, int vocab, uint64_t seed)
      : truth_(std::move(truth)), vocab_(vocab), random_(seed) {}
  std::string_view name() const override { return "fuzz"; }
  void extend(std::span<const int32_t> tokens) override { size_ += tokens.size(); }
  std::vector<int32_t> propose(int limit) override {
    std::vector<int32_t> draft(random_() % static_cast<unsigned>(limit + 1));
    const unsigned spoiled = random_() % 4 == 0 ? 60 : 8;  // percent
    for (size_t i = 0; i < draft.size(); ++i) {
      const bool known = size_ + i < truth_.size() && random_() % 100 >= spoiled;
      draft[i] = known ? truth_[size_ + i] : static_cast<int32_t>(random_() % static_cast<unsigned>(vocab_));
    }
    return draft;
  }
  int evidence() const override { return 0; }

 private:
  std::vector<int32_t> truth_;
  int vocab_;
  size_t size_ = 0;
  std::mt19937_64 random_;
};

inline EngineRequest law_request(const Subject& subject, size_t prompt, bool greedy) {
  EngineRequest r;
  r.prompt = subject.prompts[prompt];
  r.max_tokens = subject.answer;
  r.sampling.temperature = greedy ? 0.0f : 0.9f;
  r.sampling.top_p = greedy ? 1.0f : 0.95f;
  r.sampling.repetition_penalty = prompt % 4 == 3 ? 1.1f : 1.0f;
  r.sampling.frequency_penalty = prompt % 8 == 5 ? 0.3f : 0.0f;
  r.sampling.seed = 1000 + prompt;
  return r;
}

struct Question {
  size_t prompt = 0;
  bool greedy = true;
};

struct LawAnswers {
  std::vector<std::vector<int32_t>> tokens;  // of each question
  DrafterStats speculation;
  int cached_tokens = 0;
};

// Right answers by prompt: greedy and sampled.
using Truth = std::array<std::vector<std::vector<int32_t>>, 2>;

// Asks some questions in one way. truth: for the fuzzing drafter (may be empty without it).
inline LawAnswers answers(const Subject& subject, const Way& way, const std::vector<Question>& questions,
                          const Truth& truth = {}) {
  EngineOptions options;
  options.prefill_chunk = way.prefill_chunk;
  options.max_running = way.together;
  options.max_queue = 1000;
  options.kept_states = way.kept_states;
  // Drafts look nearly free, so that the policy uses them; law 1 must hold for any costs.
  options.row_cost.assign(17, 1.0);
  for (int n = 2; n <= 16; ++n) options.row_cost[static_cast<size_t>(n)] = 1 + 0.02 * n;
  options.head_cost = 0.02;
  auto model = subject.make(way.threads, way.isa);
  if (!model) return {};
  const int vocab = model->vocab();
  if (subject.make_head && way.draft != "off") options.head = subject.make_head(*model);
  if (way.fuzz) {
    options.make_drafter = [&, vocab](const EngineRequest& r) {
      const auto found = std::find(subject.prompts.begin(), subject.prompts.end(), r.prompt) - subject.prompts.begin();
      auto whole = r.prompt;
      const auto& answer = truth[r.sampling.temperature == 0 ? 0 : 1].at(static_cast<size_t>(found));
      whole.insert(whole.end(), answer.begin(), answer.end());
      return std::make_unique<FuzzDrafter>(std::move(whole), vocab, static_cast<uint64_t>(found) * 31 + 7);
    };
  }
  Engine engine(std::move(model), options);
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (const auto& [prompt, greedy] : questions) {
    auto r = law_request(subject, prompt, greedy);
    r.draft = way.draft;
    r.max_draft = way.max_draft;
    sinks.push_back(std::make_shared<CollectingSink>());
    auto id = engine.submit(r, sinks.back());
    EXPECT_TRUE(id) << id.error().message;
  }
  LawAnswers out;
  for (auto& sink : sinks) {
    out.tokens.push_back(sink->wait());
    EXPECT_EQ(sink->reason(), FinishReason::length) << (sink->error() ? sink->error()->message : "");
    out.speculation.proposed += sink->stats().speculation.proposed;
    out.speculation.accepted += sink->stats().speculation.accepted;
    out.cached_tokens += sink->stats().cached_tokens;
  }
  return out;
}

// The ways that every subject must survive.
inline std::vector<Way> ways(const Subject& subject) {
  std::vector<Way> list;
  list.push_back({.name = "auto", .draft = "auto"});
  for (int n = 1; n <= 16; ++n)
    list.push_back({.name = "drafts of " + std::to_string(n), .threads = 1 + n % 3, .draft = "lookup", .max_draft = n});
  for (int n : {1, 3, 8, 16})
    list.push_back(
        {.name = "fuzzing drafter, " + std::to_string(n), .threads = 2, .draft = "auto", .max_draft = n, .fuzz = true});
  list.push_back({.name = "fuzzing drafter, policy", .draft = "auto", .fuzz = true});
  for (int threads : {1, 2, 3}) list.push_back({.name = std::to_string(threads) + " threads", .threads = threads});
  for (int chunk : {1, 7, 64, 100000})
    list.push_back({.name = "prefill chunk " + std::to_string(chunk), .prefill_chunk = chunk});
  list.push_back({.name = "beside 3 others", .prefill_chunk = 16, .together = 4});
  list.push_back({.name = "beside 3 others, drafting",
                  .threads = 3,
                  .prefill_chunk = 7,
                  .together = 4,
                  .draft = "auto",
                  .max_draft = 5});
  list.push_back(
      {.name = "beside 3 others, fuzzing", .prefill_chunk = 64, .together = 4, .draft = "auto", .fuzz = true});
  list.push_back({.name = "kept states", .draft = "auto", .kept_states = 4});
  if (subject.make_head) {
    for (int n : {1, 2, 3, 5, 8})
      list.push_back({.name = "head, " + std::to_string(n), .threads = 1 + n % 3, .draft = "mtp", .max_draft = n});
    list.push_back({.name = "head, policy", .prefill_chunk = 7, .draft = "mtp"});
    list.push_back(
        {.name = "head beside 3 others", .prefill_chunk = 16, .together = 4, .draft = "mtp", .max_draft = 4});
    list.push_back({.name = "head and kept states", .draft = "auto", .kept_states = 4});
  }
  for (const auto& isa : subject.isas)
    list.push_back({.name = "isa " + isa, .isa = isa, .prefill_chunk = 7, .draft = "auto", .max_draft = 4});
  return list;
}

// Compares every way with plain decoding of one request at a time by one thread. Each way answers `sample` of the
// prompts (0: all), others each time, greedy and with seeded sampling.
inline void expect_one_answer(const Subject& subject, size_t sample) {
  const size_t prompts = subject.prompts.size();
  std::vector<Question> all;
  for (size_t i = 0; i < 2 * prompts; ++i) all.push_back({i % prompts, i < prompts});
  const auto plain = answers(subject, {.name = "plain", .threads = 1}, all).tokens;
  const auto middle = plain.begin() + static_cast<ptrdiff_t>(prompts);
  const Truth truth = {std::vector(plain.begin(), middle), std::vector(middle, plain.end())};
  size_t next = 0, compared = 0;
  DrafterStats speculation;
  for (const auto& way : ways(subject)) {
    std::vector<Question> questions;
    for (size_t i = 0; i < (sample == 0 ? prompts : sample); ++i, ++next) {
      questions.push_back({next % prompts, true});
      questions.push_back({next % prompts, false});
    }
    const auto found = answers(subject, way, questions, truth);
    if (found.tokens.empty()) continue;  // an instruction set that this machine lacks
    for (size_t i = 0; i < questions.size(); ++i) {
      const auto& [prompt, greedy] = questions[i];
      EXPECT_EQ(found.tokens[i], truth[greedy ? 0 : 1][prompt])
          << way.name << (greedy ? ", greedy" : ", sampled") << ", prompt " << prompt;
    }
    compared += questions.size();
    speculation.proposed += found.speculation.proposed;
    speculation.accepted += found.speculation.accepted;
  }
  std::printf("%zu answers compared; drafts: %ld proposed, %ld accepted\n", compared,
              static_cast<long>(speculation.proposed), static_cast<long>(speculation.accepted));
  // A law about drafts that saw none, or none refused, would show nothing.
  EXPECT_GT(speculation.accepted, 0);
  EXPECT_GT(speculation.proposed, speculation.accepted);
}

}  // namespace drafthorse::test
