#include "cli/bench_draft.h"

#include <algorithm>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "cli/decimal.h"
#include "draft/mtp.h"
#include "draft/policy.h"

namespace drafthorse {
namespace {

constexpr std::string_view kAlone = "replay:", kWithHead = "replay+mtp:";

struct Answer {
  std::vector<int32_t> tokens;
  RequestStats stats;
  double seconds_per_token() const {
    return stats.decode_seconds / std::max(1, stats.completion_tokens - 1);  // the first token ends the prefill
  }
};

// Keeps an answer, for the one thread that waits for it.
class AnswerSink final : public TokenSink {
 public:
  bool on_tokens(std::span<const TokenEvent> events) override {
    for (const TokenEvent& event : events) answer_.tokens.push_back(event.token);
    return true;
  }
  void on_finish(FinishReason reason, const RequestStats& stats, const Error* error) override {
    answer_.stats = stats;
    if (error) return promise_.set_value(*error);
    if (reason == FinishReason::cancelled) return promise_.set_value(Error{ErrorKind::cancelled, "cancelled", ""});
    promise_.set_value(std::move(answer_));
  }
  std::future<Result<Answer>> future() { return promise_.get_future(); }

 private:
  Answer answer_;
  std::promise<Result<Answer>> promise_;
};

Result<Answer> answer(Engine& engine, const DraftBenchOptions& options, const std::string& draft, int depth) {
  EngineRequest request;
  request.prompt = options.prompt;
  request.max_tokens = options.tokens;
  request.sampling.temperature = 0;
  request.draft = draft;
  request.max_draft = depth;
  const auto sink = std::make_shared<AnswerSink>();
  std::future<Result<Answer>> future = sink->future();
  const Result<RequestId> id = engine.submit(std::move(request), sink);
  if (!id) return id.error();
  return future.get();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

int most_depth(const ReplayKind& kind) { return kind.head ? kMostMtpDepth : kMostDraft; }

double predicted_ratio(const ReplayKind& kind, int depth, const DraftBench& bench) {
  Acceptance::Priors priors;
  priors.fill(kind.acceptance);
  const Acceptance acceptance(priors);
  const DraftOffer offer{&acceptance, 0, depth > 0 ? depth : most_depth(kind), kind.head ? bench.head_cost : 0};
  const double rate =
      depth > 0 ? draft_rate(offer, depth, 1, 1, bench.row_cost) : best_rate(offer, 1, 1, bench.row_cost);
  return rate * step_cost(bench.row_cost, 1);
}

Error differs(const ReplayKind& kind, int depth, const std::vector<int32_t>& expected,
              const std::vector<int32_t>& found) {
  const auto at = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first;
  return {
      ErrorKind::internal,
      fmt::format("with {} and drafts of {} the text differs at token {} from the one without drafts; please report "
                  "it",
                  name_of(kind), depth > 0 ? std::to_string(depth) : "the policy's choice", at - expected.begin()),
      ""};
}

// What is measured of one cell, a repeat at a time.
struct Samples {
  std::vector<double> ratios;
  double tokens = 0, steps = 0, proposed = 0;
};

// One round of a row: without drafts, then at each depth.
Status measure_row(Engine& engine, Replay& replay, const DraftBenchOptions& options, const ReplayKind& kind,
                   const std::vector<int>& depths, uint64_t seed, const std::vector<int32_t>& text,
                   std::vector<Samples>& samples, std::vector<double>& off) {
  const Result<Answer> plain = answer(engine, options, "off", 0);
  if (!plain) return plain.error();
  if (plain->tokens != text) return Status(differs(kind, 0, text, plain->tokens));
  off.push_back(plain->seconds_per_token());
  for (size_t i = 0; i < depths.size(); ++i) {
    replay.start(kind.acceptance, seed + i);
    const Result<Answer> drafted = answer(engine, options, kind.head ? "mtp" : "lookup", depths[i]);
    if (!drafted) return drafted.error();
    if (drafted->tokens != text) return Status(differs(kind, depths[i], text, drafted->tokens));
    Samples& s = samples[i];
    s.ratios.push_back(off.back() / std::max(1e-12, drafted->seconds_per_token()));
    const DrafterStats& total = drafted->stats.speculation;
    s.tokens += drafted->stats.completion_tokens - 1;
    s.steps += static_cast<double>(total.steps) - 1;
    s.proposed += static_cast<double>(total.proposed);
  }
  return {};
}

}  // namespace

std::string name_of(const ReplayKind& kind) {
  return fmt::format("{}{}", kind.head ? kWithHead : kAlone, kind.acceptance);
}

Result<std::vector<ReplayKind>> parse_replays(std::span<const std::string> texts) {
  std::vector<ReplayKind> kinds;
  for (const std::string& text : texts) {
    ReplayKind kind;
    std::string_view number = text;
    bool known = !kinds.empty();
    if (known) kind.head = kinds.back().head;
    for (const std::string_view prefix : {kAlone, kWithHead}) {
      if (!text.starts_with(prefix)) continue;
      kind.head = prefix == kWithHead;
      number.remove_prefix(prefix.size());
      known = true;
    }
    const auto [end, code] = parse_decimal(number.data(), number.data() + number.size(), kind.acceptance);
    const bool whole = code == std::errc() && end == number.data() + number.size();
    if (!known || !whole || !(kind.acceptance >= 0 && kind.acceptance <= 1)) {
      return Error{
          ErrorKind::invalid_argument,
          fmt::format("'{}' is no replayed draft; write replay:0.7 or replay+mtp:0.7, with the share of drafts "
                      "that are right, from 0 to 1",
                      text.substr(0, 40)),
          "draft"};
    }
    kinds.push_back(kind);
  }
  return kinds;
}

EngineOptions with_replay(EngineOptions options, std::shared_ptr<Replay> replay) {
  options.make_drafter = [replay](const EngineRequest&) { return make_replay_drafter(replay); };
  options.replace_head_token = [replay](size_t index, int32_t token) { return replay->propose(index).value_or(token); };
  options.kept_states = 0;  // every answer starts from its prompt
  return options;
}

Result<DraftBench> bench_draft(Engine& engine, Replay& replay, const DraftBenchOptions& options) {
  DraftBench bench;
  bench.row_cost = engine.row_cost();
  bench.head_cost = engine.head_cost();
  const Result<Answer> first = answer(engine, options, "off", 0);
  if (!first) return first.error();
  std::vector<int32_t> known = options.prompt;
  known.insert(known.end(), first->tokens.begin(), first->tokens.end());
  replay.record(std::move(known), engine.model().vocab());

  std::vector<double> off;
  for (size_t k = 0; k < options.kinds.size(); ++k) {
    const ReplayKind& kind = options.kinds[k];
    std::vector<int> depths;
    for (int depth : options.depths) {
      if (depth >= 1 && depth <= most_depth(kind)) depths.push_back(depth);
    }
    depths.push_back(0);
    std::vector<Samples> samples(depths.size());
    for (int repeat = 0; repeat < std::max(1, options.repeats); ++repeat) {
      const uint64_t seed = (k * 1000 + static_cast<uint64_t>(repeat)) * 100;
      const Status status = measure_row(engine, replay, options, kind, depths, seed, first->tokens, samples, off);
      if (!status) return status.error();
    }
    DraftBenchRow& row = bench.rows.emplace_back(DraftBenchRow{kind, {}});
    for (size_t i = 0; i < depths.size(); ++i) {
      const Samples& s = samples[i];
      const double steps = std::max(1.0, s.steps);
      row.cells.push_back(
          {depths[i], median(s.ratios), predicted_ratio(kind, depths[i], bench), s.tokens / steps, s.proposed / steps});
    }
  }
  bench.tokens_per_second = 1 / std::max(1e-12, off.empty() ? first->seconds_per_token() : median(off));
  return bench;
}

}  // namespace drafthorse
