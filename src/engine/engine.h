#pragma once
// One thread that owns the model and serves all requests: prefill, decode, verify, sampling.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "draft/drafter.h"
#include "engine/request.h"

namespace drafthorse {

struct EngineOptions {
  int max_queue = 64;          // waiting requests beyond the running ones; more is `busy`
  int max_running = 16;        // sequences that share steps
  int prefill_chunk = 256;     // most prefill rows a step carries
  std::string draft = "auto";  // server-wide: off overrides requests' auto
  std::string policy_cache;    // file for measured row costs; empty: do not keep
  std::string policy_key;      // what the costs belong to: checkpoint identity; the model's description is added
  std::vector<double>
      row_cost;         // [1..16] relative step costs to use in place of measuring, now and later (index 0 unused)
  int kept_states = 4;  // finished sequences whose states stay for prompts that extend them; 0: none
  // The model's multi-token prediction head, which drafts where it pays; null: none.
  std::shared_ptr<Model> head;
  Hidden head_input = Hidden::after_norm;  // which of the model's hidden vectors it is joined with
  double head_cost = -1;                   // of a token it drafts, in 1-row steps, to use likewise
  // What is drafted for this index of a sequence in place of the token that the head found; empty: that token. With it
  // a benchmark pays for the head and sets the acceptance.
  std::function<int32_t(size_t index, int32_t token)> replace_head_token;
  // Makes a request's drafter; empty: prompt lookup.
  std::function<std::unique_ptr<Drafter>(const EngineRequest&)> make_drafter;
};

using RequestId = uint64_t;

struct EngineStats {
  uint64_t requests = 0, finished = 0, cancelled = 0, failed = 0, rejected = 0;
  uint64_t prompt_tokens = 0, completion_tokens = 0, steps = 0, rows = 0;
  int running = 0, queued = 0;
  std::map<std::string, DrafterStats> by_drafter;
};

class Engine {
 public:
  // Takes the model; measures row costs (or reads them from policy_cache) before it returns.
  Engine(std::unique_ptr<Model> model, EngineOptions options);
  ~Engine();  // cancels everything and joins

  // Error: busy (queue full), context_length (prompt does not fit), invalid_argument (empty prompt, bad token id).
  Result<RequestId> submit(EngineRequest request, std::shared_ptr<TokenSink> sink);
  // Frees the request within one step, queued, in prefill or in decode; its sink still gets on_finish(cancelled).
  void cancel(RequestId id);
  EngineStats stats() const;
  const Model& model() const;
  // Of the model and, as "head weights" and so on, of the drafting head.
  std::vector<MemoryPart> memory() const;
  // row_cost[n]: measured seconds of a step of n rows over one of 1 row, n = 1..16 (index 0 unused).
  std::vector<double> row_cost() const;
  // Seconds of a token drafted by the head over those of a 1-row step; 0 without a head.
  double head_cost() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace drafthorse
