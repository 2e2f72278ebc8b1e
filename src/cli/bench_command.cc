// bench: what the kernels and a model reach on this machine.

#include <fmt/format.h>
#include <boost/json.hpp>

#include "backend/bench_model.h"
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
  return {{"depth", depth},
          {"decode_tokens_per_second", bench.decode_tokens_per_second},
          {"prefill_tokens_per_second", bench.prefill_tokens_per_second},
          {"bytes_per_token", bench.bytes_per_token},
          {"read_bytes_per_second", bench.read_bytes_per_second},
          {"read_bandwidth", bench.bandwidth},
          {"bandwidth_share", bench.bandwidth_share}};
}

Status bench_model_command(const Options& options) {
  Result<LoadOptions> located = locate_model(options);
  if (!located) return located.error();
  auto checkpoint = Checkpoint::open(located->path);
  if (!checkpoint) return checkpoint.error();
  auto network = read_network(*checkpoint);
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

}  // namespace

Status bench_command(const Options& options) {
  if (options.what == "model") return bench_model_command(options);
  return Error{ErrorKind::unsupported, "bench kernels is not built in", ""};
}

}  // namespace drafthorse
