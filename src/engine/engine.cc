#include "engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "core/topology.h"
#include "engine/head_cost.h"
#include "engine/head_drafts.h"
#include "engine/kept_states.h"
#include "engine/live_costs.h"
#include "engine/row_costs.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace drafthorse {
namespace {

constexpr int kManyRows = 24;    // entered by the head at once, from which on they are not a draft's
constexpr int kPlainEvery = 64;  // steps after which one without drafts is due
constexpr int kGrowth = 256;     // positions reserved at admission for an answer without a limit

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Status validate(const EngineRequest& r, int vocab, int context, bool has_head) {
  if (r.prompt.empty())
    return Error{ErrorKind::invalid_argument, "the prompt has no tokens; send at least one", "prompt"};
  if (r.prompt.size() >= static_cast<size_t>(context))
    return Error{ErrorKind::context_length,
                 fmt::format("the prompt has {} tokens, the context is {} (one of them must be left for the answer)",
                             r.prompt.size(), context),
                 "prompt"};
  for (size_t i = 0; i < r.prompt.size(); ++i)
    if (r.prompt[i] < 0 || r.prompt[i] >= vocab)
      return Error{ErrorKind::invalid_argument,
                   fmt::format("prompt token {} has id {}, the vocabulary has ids 0 to {}", i, r.prompt[i], vocab - 1),
                   "prompt"};
  if (r.max_tokens < 0)
    return Error{ErrorKind::invalid_argument, fmt::format("max_tokens must be 0 or more, found {}", r.max_tokens),
                 "max_tokens"};
  if (!is_draft_mode(r.draft))
    return Error{ErrorKind::invalid_argument,
                 fmt::format("draft must be auto, off, lookup or mtp, found \"{}\"", r.draft.substr(0, 40)), "draft"};
  if (r.draft == "mtp" && !has_head)
    return Error{ErrorKind::invalid_argument,
                 "this model has no multi-token prediction head; ask for draft auto, off or lookup", "draft"};
  if (r.max_draft < 0 || r.max_draft > kMostDraft)
    return Error{ErrorKind::invalid_argument,
                 fmt::format("max_draft must be between 0 and {}, found {}", kMostDraft, r.max_draft), "max_draft"};
  return validate_sampling(r.sampling, vocab);
}

}  // namespace

struct Engine::Impl {
  using SequencePtr = std::shared_ptr<Sequence>;

  Impl(std::unique_ptr<Model> model_in, EngineOptions options_in)
      : model(std::move(model_in)), options(std::move(options_in)), kept(options.kept_states) {
    options.max_running = std::max(1, options.max_running);
    row_cost = options.row_cost;
    if (row_cost.size() != kMeasuredRows + 1) {
      options.row_cost.clear();
      const std::string key = options.policy_key + " | " + model->description() + " | " + cpu_name();
      const RowCosts measured = row_costs_for(*model, options.policy_cache, key);
      row_cost = measured.cost;
      live_costs = shared_costs = LiveCosts(row_cost, measured.one);
    } else {
      live_costs = shared_costs = LiveCosts(row_cost);
    }
    if (options.head) head_cost = options.head_cost >= 0 ? options.head_cost : measure_head_cost(*model, *options.head);
    live_head_cost = LiveHeadCost(head_cost);
    thread = std::thread([this] { loop(); });
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
      for (auto& [id, s] : by_id) s->cancelled = true;
    }
    wake.notify_all();
    thread.join();
  }

  Result<RequestId> submit(EngineRequest request, std::shared_ptr<TokenSink> sink) {
    auto valid = validate(request, model->vocab(), model->context(), options.head != nullptr);
    std::lock_guard lock(mutex);
    if (!valid || stopping) {
      ++stats.rejected;
      if (!valid) return valid.error();
      return Error{ErrorKind::cancelled, "the engine is shutting down", ""};
    }
    const auto most = static_cast<size_t>(options.max_running) + static_cast<size_t>(std::max(0, options.max_queue));
    if (by_id.size() >= most) {
      ++stats.rejected;
      return Error{ErrorKind::busy,
                   fmt::format("{} requests are running or waiting, which is the limit; try again later", by_id.size()),
                   ""};
    }
    const RequestId id = ++last_id;
    auto sequence = std::make_shared<Sequence>(id, std::move(request), std::move(sink));
    sequence->tokens = sequence->request.prompt;
    sequence->stats.prompt_tokens = static_cast<int>(sequence->tokens.size());
    ++stats.requests;
    by_id.emplace(id, sequence);
    queue.push_back(std::move(sequence));
    wake.notify_all();
    return id;
  }

  void cancel(RequestId id) {
    std::lock_guard lock(mutex);
    const auto found = by_id.find(id);
    if (found != by_id.end()) found->second->cancelled = true;
  }

  // ---- The engine thread ----

  void loop() {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stopping || !queue.empty() || !running.empty(); });
        if (stopping && queue.empty() && running.empty()) return;
      }
      drop_cancelled();
      admit();
      if (!running.empty()) step();
    }
  }

  void drop_cancelled() {
    std::vector<SequencePtr> dropped;
    {
      std::lock_guard lock(mutex);
      const auto is_cancelled = [&](const SequencePtr& s) {
        if (s->cancelled) dropped.push_back(s);
        return s->cancelled.load();
      };
      std::erase_if(queue, [&](const SequencePtr& s) { return is_cancelled(s); });
    }
    for (const auto& s : running)
      if (s->cancelled) dropped.push_back(s);
    for (const auto& s : dropped) finish(*s, FinishReason::cancelled);
  }

  // Takes waiting sequences in order, as long as there is a place and memory for the next one.
  void admit() {
    while (static_cast<int>(running.size()) < options.max_running) {
      SequencePtr s;
      {
        std::lock_guard lock(mutex);
        if (queue.empty() || (memory_short && !running.empty())) return;
        s = queue.front();
      }
      Status reserved = [&]() -> Status {
        try {
          return prepare(*s);
        } catch (const std::exception& e) {
          return Error{ErrorKind::internal, fmt::format("preparing the request failed: {}", e.what()), ""};
        }
      }();
      if (!reserved) {
        s->state.reset();
        s->head.reset();
        if (reserved.error().kind == ErrorKind::out_of_memory && !running.empty()) {
          memory_short = true;  // waits for one of the others to end
          return;
        }
      }
      {
        std::lock_guard lock(mutex);
        queue.pop_front();
      }
      if (!reserved) {
        finish(*s, FinishReason::error, &reserved.error());
        continue;
      }
      if (!s->was_admitted) s->admitted = Clock::now();
      s->was_admitted = true;
      running.push_back(std::move(s));
    }
  }

  // Gives a sequence its state, memory and drafter. Memory: for the prompt and the longest answer where that fits
  // beside the others; a sequence that is alone starts with what its tokens need and grows.
  Status prepare(Sequence& s) {
    auto reused = kept.take(s.tokens);
    s.state = std::move(reused.state);
    if (!s.state) s.state = model->new_state();
    if (uses_head(s)) s.head = reused.head ? std::move(reused.head) : std::make_unique<MtpHistory>(*options.head);
    s.reserved = 0;
    if (!s.was_admitted) s.stats.cached_tokens = s.state->length();
    const int room = s.room(model->context());
    const int wanted = s.pending() + (s.request.max_tokens > 0 ? room : std::min(room, kGrowth));
    auto reserved = reserve(s, wanted);
    if (!reserved && running.empty()) reserved = reserve(s, s.pending());
    if (!reserved || s.was_admitted) return reserved;
    s.sampler.extend_prompt(s.request.prompt);
    s.experience = experience;
    if (options.draft != "off" && s.request.draft != "off" && s.request.draft != "mtp") {
      s.drafter = options.make_drafter ? options.make_drafter(s.request) : make_prompt_lookup();
      if (s.drafter) s.drafter->extend(s.tokens);
    }
    return {};
  }

  bool uses_head(const Sequence& s) const {
    return options.head && options.draft != "off" && options.draft != "lookup" &&
           (s.request.draft == "auto" || s.request.draft == "mtp");
  }

  // Reserves, at the cost of kept states where need be. A reservation is never made smaller.
  Status reserve(Sequence& s, int positions) {
    const int wanted = s.state->length() + positions;
    if (wanted <= s.reserved) return {};
    for (;;) {
      auto reserved = model->reserve(*s.state, positions);
      if (reserved) s.reserved = wanted;
      if (reserved || !kept.drop_oldest()) return reserved;
    }
  }

  // Makes sure of memory for the rows of this step. When the pool is exhausted the newest sequence gives its memory
  // back and waits (its tokens are kept and computed again later); the last one that is left ends with the error.
  void secure_memory() {
    for (size_t i = 0; i < running.size();) {
      Sequence& s = *running[i];
      auto reserved = reserve(s, static_cast<int>(s.rows.size()));
      if (!reserved && !s.draft.empty()) {
        s.rows.resize(s.rows.size() - s.draft.size());
        s.draft.clear();
        continue;
      }
      if (reserved) {
        ++i;
      } else if (running.size() > 1) {
        const auto newest = running.back();
        running.pop_back();
        newest->state.reset();
        newest->head.reset();
        memory_short = true;
        std::lock_guard lock(mutex);
        queue.push_front(newest);
      } else {
        const auto only = running.back();
        finish(*only, FinishReason::error, &reserved.error());
      }
    }
  }

  // What rows cost in a step of so many sequences. Rows of different texts share fewer experts, and each reads its own
  // keys and values, so steps of several sequences are followed by themselves.
  LiveCosts& costs_of(size_t sequences) { return sequences > 1 ? shared_costs : live_costs; }

  void step() {
    const auto start = Clock::now();
    const LiveCosts& costs = costs_of(running.size());
    plan_step(running, {options.prefill_chunk, model->context(), model->vocab(), costs.cost(), live_head_cost.cost(),
                        live_head_cost.row(), running.size() == 1 && costs.steps_since_one() >= kPlainEvery});
    const int pending = head_rows_pending();
    const double heads = options.head ? run_heads() : 0;
    const int entered = pending - head_rows_pending();
    add_draft_rows(running);
    secure_memory();
    std::vector<SequencePtr> members;
    size_t rows = 0;
    bool decoding = true;  // nothing else
    for (const auto& s : running) {
      if (s->rows.empty()) continue;
      members.push_back(s);
      rows += s->rows.size();
      decoding = decoding && s->rows.size() == s->draft.size() + 1;
    }
    if (members.empty()) return;
    const size_t before = members[0]->tokens.size();
    try {
      run(members);
    } catch (const std::exception& e) {
      return run_one_by_one(members);
    }
    const size_t after = members[0]->tokens.size();  // of one that ended: none
    if (decoding && after > before)
      learn_costs(members, rows, static_cast<int>(after - before), heads, entered,
                  seconds_between(start, Clock::now()));
  }

  // Rows that the head's cache of the only sequence lacks.
  int head_rows_pending() const {
    return running.size() == 1 && running[0]->head ? running[0]->head->pending_rows() : 0;
  }

  // What a step of decode and verify rows took, `heads` seconds of it for the head's drafts and the rows it entered. The
  // whole of it counts, sampling and the sink included: that is what a step without drafts saves. gained: tokens of the
  // first member.
  void learn_costs(const std::vector<SequencePtr>& members, size_t rows, int gained, double heads, int entered,
                   double seconds) {
    if (!options.row_cost.empty()) return;
    costs_of(members.size()).observe(static_cast<int>(rows), seconds - heads);
    if (members.size() > 1) return;
    if (rows == 1) shared_costs.observe(1, seconds - heads);
    Sequence& s = *members[0];
    const auto drafted = static_cast<int>(s.head_draft.size());
    if (options.head && options.head_cost < 0) {
      if (entered >= kManyRows) live_head_cost.observe_rows(entered, drafted, heads, live_costs.one());
      else live_head_cost.observe(drafted, heads, live_costs.one());
    }
    if (live_costs.one() <= 0 || s.request.max_draft > 0) return;
    const double steps = seconds / live_costs.one();
    if (drafted > 0) s.head_balance.observe(gained, steps);
    else if (rows > 1) s.drafter_balance[static_cast<size_t>(s.evidence)].observe(gained, steps);
  }

  // Drafts, where the plan wants it; returns the seconds that it took.
  double run_heads() {
    const auto start = Clock::now();
    draft_with_heads(running, {options.head.get(), costs_of(running.size()).cost(), live_head_cost.cost(), &scratch,
                               &options.replace_head_token});
    return seconds_between(start, Clock::now());
  }

  // One model call. After an exception states are as they were, or empty where they cannot go back.
  void run(const std::vector<SequencePtr>& members) {
    std::vector<BatchItem> batch;
    std::vector<int> lengths;
    uint64_t rows = 0;
    for (const auto& s : members) {
      const int count = static_cast<int>(s->rows.size() - s->draft.size());
      const bool whole = count == s->pending();
      batch.push_back(
          {s->state.get(), s->rows, whole ? s->draft.empty() ? LogitRows::last : LogitRows::all : LogitRows::none});
      batch.back().tentative = static_cast<int>(s->draft.size());
      batch.back().hidden = s->head ? options.head_input : Hidden::none;
      lengths.push_back(s->state->length());
      rows += s->rows.size();
    }
    const auto all_cancelled = [&] {
      return std::all_of(members.begin(), members.end(), [](const SequencePtr& s) { return s->cancelled.load(); });
    };
    RunOutput out;
    try {
      out = model->run(batch, all_cancelled);
    } catch (...) {
      for (size_t i = 0; i < members.size(); ++i) {
        Sequence& s = *members[i];
        s.state->truncate(std::min(s.state->length(), lengths[i]));
        if (s.head) s.head->truncate(s.state->length());
      }
      throw;
    }
    if (out.stopped) return;  // all were cancelled
    {
      std::lock_guard lock(mutex);
      ++stats.steps;
      stats.rows += rows;
    }
    const auto vocab = static_cast<size_t>(model->vocab());
    const auto width = static_cast<size_t>(model->hidden());
    size_t row = 0, hidden_row = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      std::span<const float> hidden;
      if (batch[i].hidden != Hidden::none) {
        hidden = out.hidden.subspan(hidden_row * width, batch[i].tokens.size() * width);
        hidden_row += batch[i].tokens.size();
      }
      if (batch[i].logits == LogitRows::none) {
        if (members[i]->head) members[i]->head->extend(lengths[i], hidden);
        continue;
      }
      const size_t count = batch[i].logits == LogitRows::all ? batch[i].tokens.size() : 1;
      const auto logits = out.logits.subspan(row * vocab, count * vocab);
      row += count;
      try {
        accept(*members[i], lengths[i], logits, hidden);
      } catch (const std::exception& e) {
        const Error error{ErrorKind::internal, fmt::format("sampling failed: {}", e.what()), ""};
        finish(*members[i], FinishReason::error, &error);
      }
    }
  }

  // After an exception: the one at fault fails alone, the others get the same results as before.
  void run_one_by_one(const std::vector<SequencePtr>& members) {
    for (const auto& s : members) {
      try {
        plan_again(*s);
        if (auto reserved = reserve(*s, static_cast<int>(s->rows.size())); !reserved) {
          finish(*s, FinishReason::error, &reserved.error());
          continue;
        }
        run({s});
      } catch (const std::exception& e) {
        const Error error{ErrorKind::internal, fmt::format("the model failed: {}", e.what()), ""};
        finish(*s, FinishReason::error, &error);
      }
    }
  }

  // The rows of a step without drafts, from what the state holds now: after a failure that may be nothing.
  void plan_again(Sequence& s) const {
    s.draft.clear();
    const auto first = s.tokens.begin() + s.state->length();
    s.rows.assign(first, first + std::min(s.pending(), std::max(1, options.prefill_chunk)));
  }

  // Samples from the rows of a sequence for as long as its drafts agree. logits: [1 + drafts, vocab]; hidden: [rows,
  // hidden] where it has a head; before: the state's length before the run.
  void accept(Sequence& s, int before, std::span<const float> logits, std::span<const float> hidden) {
    const auto vocab = static_cast<size_t>(model->vocab());
    const size_t old_size = s.tokens.size();
    int accepted = 0;
    std::vector<TokenEvent> events;
    std::optional<FinishReason> reason;
    std::optional<Error> error;
    for (size_t row = 0; row <= s.draft.size() && !reason; ++row) {
      auto sampled = s.sampler.sample(logits.subspan(row * vocab, vocab), s.tokens.size(), scratch);
      if (!sampled) {
        error = sampled.error();
        reason = FinishReason::error;
        break;
      }
      const int32_t token = sampled->token;
      events.push_back(std::move(*sampled));
      s.tokens.push_back(token);
      s.sampler.extend_output(token);
      ++s.stats.completion_tokens;
      const bool agrees = row < s.draft.size() && token == s.draft[row];
      if (agrees) ++accepted;
      const auto& stops = s.request.stop_tokens;
      if (std::find(stops.begin(), stops.end(), token) != stops.end()) reason = FinishReason::stop;
      else if (s.room(model->context()) <= 0) reason = FinishReason::length;
      if (!agrees) break;
    }
    const int base = static_cast<int>(old_size) - before;  // tokens that were pending
    s.state->truncate(before + base + accepted);
    if (s.head)
      s.head->extend(before, hidden.first(static_cast<size_t>(base + accepted) * static_cast<size_t>(model->hidden())));
    count(s, old_size, accepted);
    if (!events.empty() && !tell(s, events, error)) reason = error ? FinishReason::error : FinishReason::stop;
    if (reason) finish(s, *reason, error ? &*error : nullptr);
  }

  // Statistics, drafter and estimates after a sequence grew.
  void count(Sequence& s, size_t old_size, int accepted) {
    const auto grown = std::span(s.tokens).subspan(old_size);
    if (s.stats.completion_tokens == static_cast<int>(grown.size())) s.first_token = Clock::now();
    ++s.stats.speculation.steps;
    s.shadow.extend(grown, s.experience.drafter);
    judge_head_drafts(s, grown);
    if (!s.draft.empty()) {
      const auto proposed = static_cast<int>(s.draft.size());
      const bool by_head = s.source == DraftSource::head;
      // A draft that the end of the answer cut short was not refused.
      const int compared = accepted == static_cast<int>(grown.size()) ? accepted : proposed;
      if (!by_head) s.experience.drafter.observe(s.evidence, compared, accepted);
      auto& drafter = s.stats.by_drafter[by_head ? "mtp" : std::string(s.drafter->name())];
      for (DrafterStats* d : {&drafter, &s.stats.speculation}) {
        d->proposed += proposed;
        d->accepted += accepted;
      }
      drafter.count_depths(compared, accepted);
      ++drafter.steps;
    }
    if (s.drafter) s.drafter->extend(grown);
  }

  // Hands tokens to the sink. False: the sequence ends, with `error` when the sink failed.
  static bool tell(Sequence& s, std::span<const TokenEvent> events, std::optional<Error>& error) {
    try {
      return s.sink->on_tokens(events);
    } catch (const std::exception& e) {
      error = Error{ErrorKind::internal, fmt::format("handling new tokens failed: {}", e.what()), ""};
      return false;
    }
  }

  void finish(Sequence& sequence, FinishReason reason, const Error* error = nullptr) {
    // `s` keeps the sequence alive while it leaves the lists.
    SequencePtr s;
    const auto now = Clock::now();
    {
      std::lock_guard lock(mutex);
      const auto found = by_id.find(sequence.id);
      if (found == by_id.end()) return;
      s = std::move(found->second);
      by_id.erase(found);
      (reason == FinishReason::cancelled ? stats.cancelled
       : reason == FinishReason::error   ? stats.failed
                                         : stats.finished)++;
      stats.prompt_tokens += static_cast<uint64_t>(s->stats.prompt_tokens);
      stats.completion_tokens += static_cast<uint64_t>(s->stats.completion_tokens);
      for (const auto& [name, d] : s->stats.by_drafter) stats.by_drafter[name].add(d);
    }
    std::erase(running, s);
    memory_short = false;
    const auto admitted = s->was_admitted ? s->admitted : now;
    const auto first = s->stats.completion_tokens > 0 ? s->first_token : now;
    s->stats.queue_seconds = seconds_between(s->submitted, admitted);
    s->stats.prefill_seconds = seconds_between(admitted, first);
    s->stats.decode_seconds = seconds_between(first, now);
    if (s->state && reason != FinishReason::error) {
      s->tokens.resize(static_cast<size_t>(s->state->length()));
      (void)model->reserve(*s->state, 0);  // gives back what it did not use
      kept.keep(std::move(s->tokens), {std::move(s->state), std::move(s->head)});
    }
    s->state.reset();
    s->head.reset();
    if (s->was_admitted) experience = s->experience.next(s->stats.completion_tokens);
    try {
      s->sink->on_finish(reason, s->stats, error);
    } catch (const std::exception&) {
      // A sink must not throw; the others do not pay for one that does.
    }
  }

  std::unique_ptr<Model> model;
  EngineOptions options;
  std::vector<double> row_cost;  // as measured at the start
  double head_cost = 0;          // of a token drafted by the head, in 1-row steps

  mutable std::mutex mutex;  // guards what follows, up to the blank line
  std::condition_variable wake;
  bool stopping = false;
  RequestId last_id = 0;
  std::deque<SequencePtr> queue;
  std::unordered_map<RequestId, SequencePtr> by_id;
  EngineStats stats;

  std::vector<SequencePtr> running;            // engine thread only, oldest first
  bool memory_short = false;                   // a sequence gave its memory back; nobody is admitted until one finishes
  LiveCosts live_costs{{}}, shared_costs{{}};  // of steps of one sequence, and of several
  LiveHeadCost live_head_cost;
  Experience experience;  // of the request that ended last: where the next one starts
  KeptStates kept;
  SamplerScratch scratch;
  std::thread thread;
};

Engine::Engine(std::unique_ptr<Model> model, EngineOptions options)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(options))) {}
Engine::~Engine() = default;

Result<RequestId> Engine::submit(EngineRequest request, std::shared_ptr<TokenSink> sink) {
  return impl_->submit(std::move(request), std::move(sink));
}
void Engine::cancel(RequestId id) { impl_->cancel(id); }

EngineStats Engine::stats() const {
  std::lock_guard lock(impl_->mutex);
  EngineStats stats = impl_->stats;
  stats.queued = static_cast<int>(impl_->queue.size());
  stats.running = static_cast<int>(impl_->by_id.size()) - stats.queued;
  return stats;
}

const Model& Engine::model() const { return *impl_->model; }
std::vector<MemoryPart> Engine::memory() const {
  std::vector<MemoryPart> parts = impl_->model->memory();
  if (!impl_->options.head) return parts;
  for (MemoryPart& part : impl_->options.head->memory()) parts.push_back({"head " + part.name, part.bytes});
  return parts;
}
std::vector<double> Engine::row_cost() const { return impl_->row_cost; }
double Engine::head_cost() const { return impl_->head_cost; }

}  // namespace drafthorse
