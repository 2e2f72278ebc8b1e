// bench draft: loads, measures and prints.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/json.hpp>

#include "cli/bench_draft.h"
#include "cli/model_setup.h"

namespace drafthorse {
namespace {

namespace json = boost::json;

constexpr std::string_view kPrompt =
    "The harbour master keeps a list of every ship that came in this year, where it came from and what it carried.";

std::string depth_name(int depth) { return depth > 0 ? std::to_string(depth) : "policy"; }

json::object draft_bench_json(const LoadedModel& model, const DraftBench& bench, const DraftBenchOptions& options) {
  json::array rows;
  for (const DraftBenchRow& row : bench.rows) {
    json::array cells;
    for (const DraftBenchCell& cell : row.cells) {
      cells.push_back({{"depth", cell.depth > 0 ? json::value(cell.depth) : json::value("policy")},
                       {"ratio", cell.ratio},
                       {"predicted", cell.predicted},
                       {"tokens_per_step", cell.tokens_per_step},
                       {"proposed_per_step", cell.proposed_per_step}});
    }
    rows.push_back(
        {{"draft", name_of(row.kind)}, {"acceptance", row.kind.acceptance}, {"head", row.kind.head}, {"cells", cells}});
  }
  return {{"model", model.id},
          {"backend", model.engine->model().description()},
          {"tokens", options.tokens},
          {"repeats", options.repeats},
          {"tokens_per_second", bench.tokens_per_second},
          {"row_cost", json::value_from(std::vector<double>(bench.row_cost.begin() + 1, bench.row_cost.end()))},
          {"head_cost", bench.head_cost},
          {"texts_equal", true},  // a text that differs is an error
          {"rows", rows}};
}

void print_table(const LoadedModel& model, const DraftBench& bench, const DraftBenchOptions& options) {
  fmt::print("{}, {}\n", model.id, model.engine->model().description());
  fmt::print("{} tokens with drafting off: {:.1f} tokens/s\n", options.tokens, bench.tokens_per_second);
  std::vector<std::string> costs;
  for (const int n : {2, 4, 8, 16}) {
    costs.push_back(fmt::format("{} rows {:.2f}", n, bench.row_cost[static_cast<size_t>(n)]));
  }
  fmt::print("cost of a step over that of 1 row: {}", fmt::join(costs, ", "));
  if (bench.head_cost > 0) fmt::print("; of a token of the drafting head: {:.2f}", bench.head_cost);
  fmt::print("\n\nspeed over drafting off, measured (predicted), by drafted tokens a step\n{:<18}", "");
  std::vector<int> depths = options.depths;
  depths.push_back(0);
  for (const int depth : depths) fmt::print(" {:>13}", depth_name(depth));
  fmt::print("\n");
  for (const DraftBenchRow& row : bench.rows) {
    fmt::print("{:<18}", name_of(row.kind));
    size_t next = 0;
    for (const int depth : depths) {
      const bool measured = next < row.cells.size() && row.cells[next].depth == depth;
      const DraftBenchCell cell = measured ? row.cells[next++] : DraftBenchCell{};
      fmt::print(" {:>13}", measured ? fmt::format("{:.2f} ({:.2f})", cell.ratio, cell.predicted) : "-");
    }
    fmt::print("\n");
  }
  fmt::print("every text is the one without drafts\n");
}

}  // namespace

Status bench_draft_command(const Options& options) {
  const std::vector<std::string> usual = {"replay:0.5", "0.7", "0.9"};
  const auto kinds = parse_replays(options.bench_drafts.empty() ? usual : options.bench_drafts);
  if (!kinds) return kinds.error();
  Result<LoadOptions> located = locate_model(options);
  if (!located) return located.error();
  const auto replay = std::make_shared<Replay>();
  located->engine = with_replay(std::move(located->engine), replay);
  Result<std::shared_ptr<LoadedModel>> model = load(*located);
  if (!model) return model.error();

  DraftBenchOptions bench_options;
  bench_options.kinds = *kinds;
  bench_options.prompt = (*model)->tokenizer->encode(options.prompt.value_or(std::string(kPrompt)));
  bench_options.tokens = options.max_tokens.value_or(bench_options.tokens);
  bench_options.repeats = options.bench_repeats;
  if (!options.bench_depths.empty()) bench_options.depths = options.bench_depths;
  const Result<DraftBench> bench = bench_draft(*(*model)->engine, *replay, bench_options);
  if (!bench) return bench.error();
  if (options.json) {
    fmt::print("{}\n", json::serialize(draft_bench_json(**model, *bench, bench_options)));
  } else {
    print_table(**model, *bench, bench_options);
  }
  return {};
}

}  // namespace drafthorse
