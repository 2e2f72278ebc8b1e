// bench: what the kernels and a model reach on this machine.

#include <fmt/format.h>
#include <boost/json.hpp>

#include "backend/bench_model.h"
#include "backend/cpu/bench_kernels.h"
#include "cli/bench_draft.h"
#include "cli/commands.h"
#include "cli/model_setup.h"
#include "core/topology.h"

namespace drafthorse {
namespace {

namespace json = boost::json;

constexpr int kDepths[] = {0, 512};
constexpr double kGiga = 1e9;

int thread_count(const Options& options) { return options.threads > 0 ? options.threads : read_cpu_limits().workers(); }

json::object bench_json(const ModelBench& bench, int depth) {
  json::object parts;
  for (const TimePart& part : bench.decode_parts) parts[part.name] = part.seconds;
  return {{"depth", depth},
          {"decode_tokens_per_second", bench.decode_tokens_per_second},
          {"prefill_tokens_per_second", bench.prefill_tokens_per_second},
          {"bytes_per_token", bench.bytes_per_token},
          {"read_bytes_per_second", bench.read_bytes_per_second},
          {"read_bandwidth", bench.bandwidth},
          {"bandwidth_share", bench.bandwidth_share},
          {"decode_seconds_by_part", parts}};
}

// "  of a decode step: attention 1.20 ms, …", the parts that the model has.
std::string parts_line(const ModelBench& bench) {
  std::string text;
  for (const TimePart& part : bench.decode_parts) {
    if (part.seconds == 0) continue;
    text += fmt::format("{}{} {:.2f} ms", text.empty() ? "" : ", ", part.name, part.seconds * 1e3);
  }
  return text.empty() ? text : fmt::format("{:>8} {}\n", "", text);
}

Status bench_model_command(const Options& options) {
  Result<LoadOptions> located = locate_model(options);
  if (!located) return located.error();
  auto checkpoint = Checkpoint::open(located->path);
  if (!checkpoint) return checkpoint.error();
  auto network = read_network(*checkpoint, {.mtp = located->mtp});
  if (!network) return network.error();
  auto model = load_model(*network, located->backend);
  if (!model) return model.error();
  json::array results;
  if (!options.json) {
    fmt::print("{}, {}\n", network->name, (*model)->description());
    fmt::print("{:>8} {:>16} {:>16} {:>14} {:>16} {:>8}\n", "depth", "decode tok/s", "prefill tok/s", "MB a token",
               "reads GB/s of", "share");
  }
  for (int depth : kDepths) {
    ModelBenchOptions bench_options;
    bench_options.depth = depth;
    auto bench = bench_model(*network, **model, thread_count(options), bench_options);
    if (!bench) return bench.error();
    results.push_back(bench_json(*bench, depth));
    if (options.json) continue;
    fmt::print("{:>8} {:>16.1f} {:>16.1f} {:>14.1f} {:>7.1f} of {:>5.1f} {:>7.0f}%\n", depth,
               bench->decode_tokens_per_second, bench->prefill_tokens_per_second,
               static_cast<double>(bench->bytes_per_token) / 1e6, bench->read_bytes_per_second / kGiga,
               bench->bandwidth / kGiga, bench->bandwidth_share * 100);
    fmt::print("{}", parts_line(*bench));
    std::fflush(stdout);
  }
  if (options.json) {
    fmt::print("{}\n", json::serialize(json::object{{"model", network->name},
                                                    {"backend", (*model)->description()},
                                                    {"threads", thread_count(options)},
                                                    {"results", results}}));
  }
  return {};
}

json::object bench_json(const BenchKernelsRow& row) {
  return {{"format", row.format},
          {"inputs", row.inputs},
          {"outputs", row.outputs},
          {"rows", row.rows},
          {"microseconds", row.microseconds},
          {"gigabytes_per_second", row.gigabytes_per_second},
          {"bandwidth_share", row.bandwidth_share},
          {"relative_cost", row.relative_cost},
          {"gmacs_per_second", row.gmacs_per_second}};
}

Status bench_kernels_command(const Options& options) {
  BenchKernelsOptions bench_options;
  bench_options.threads = thread_count(options);
  if (!options.isa.empty()) bench_options.isa = options.isa;
  if (!options.bench_formats.empty()) bench_options.formats = options.bench_formats;
  if (!options.bench_rows.empty()) bench_options.rows = options.bench_rows;
  auto report = bench_kernels(bench_options);
  if (!report) return report.error();
  if (!options.json) {
    fmt::print("{}", format_report(*report));
    return {};
  }
  json::array rows;
  for (const BenchKernelsRow& row : report->rows) rows.push_back(bench_json(row));
  fmt::print("{}\n", json::serialize(json::object{{"isa", report->isa},
                                                  {"threads", report->threads},
                                                  {"read_gigabytes_per_second", report->read_gigabytes_per_second},
                                                  {"rows", rows}}));
  return {};
}

}  // namespace

Status bench_command(const Options& options) {
  if (options.what == "draft") return bench_draft_command(options);
  return options.what == "model" ? bench_model_command(options) : bench_kernels_command(options);
}

}  // namespace drafthorse
