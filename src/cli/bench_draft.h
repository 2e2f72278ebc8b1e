#pragma once
// What drafting gains at a set acceptance, depth by depth: `drafthorse bench draft`. A text that the model wrote without
// drafts is proposed to it again with errors, so that the figures do not depend on how good a drafter is.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/options.h"
#include "draft/replay.h"
#include "engine/engine.h"

namespace drafthorse {

struct ReplayKind {
  double acceptance = 1;  // of a token whose predecessors were accepted, in [0, 1]
  bool head = false;      // the model's drafting head runs too; what it says is replaced
};
std::string name_of(const ReplayKind& kind);  // "replay:0.7", "replay+mtp:0.7"

// From "replay:0.7", "replay+mtp:0.8" and bare numbers, which continue the kind before them. Error: invalid_argument.
Result<std::vector<ReplayKind>> parse_replays(std::span<const std::string> texts);

// What the engine needs for bench_draft.
EngineOptions with_replay(EngineOptions options, std::shared_ptr<Replay> replay);

struct DraftBenchOptions {
  std::vector<ReplayKind> kinds;
  std::vector<int32_t> prompt;
  int tokens = 256;                            // of each answer
  std::vector<int> depths = {1, 2, 4, 8, 16};  // forced; the policy's own choice is measured too
  int repeats = 3;                             // ratios are medians of so many
};

struct DraftBenchCell {
  int depth = 0;               // 0: the policy's choice
  double ratio = 0;            // of tokens a second, over those without drafts right before
  double predicted = 0;        // what the policy expects of the acceptance and the measured costs
  double tokens_per_step = 0;  // each step accepts some drafts and brings one token more
  double proposed_per_step = 0;
};
struct DraftBenchRow {
  ReplayKind kind;
  std::vector<DraftBenchCell> cells;  // by depth, the policy last; a head's only as deep as it is chained
};
struct DraftBench {
  double tokens_per_second = 0;  // without drafts
  std::vector<double> row_cost;  // as Engine::row_cost
  double head_cost = 0;          // as Engine::head_cost
  std::vector<DraftBenchRow> rows;
};

// Every text is compared with the one without drafts. Errors: invalid_argument for a head that the model does not have,
// what the engine says of prompt and length, and internal where a text differs.
Result<DraftBench> bench_draft(Engine& engine, Replay& replay, const DraftBenchOptions& options);

// The command: loads the model, measures, prints.
Status bench_draft_command(const Options& options);

}  // namespace drafthorse
