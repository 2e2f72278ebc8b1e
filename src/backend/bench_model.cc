#include "backend/bench_model.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace drafthorse {
namespace {

using Clock = std::chrono::steady_clock;

template <class F>
double seconds(F f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + x.size() / 2, x.end());
  return x[x.size() / 2];
}

// Tokens that differ, so that no part of the run repeats.
std::vector<int32_t> some_tokens(int n, int vocab) {
  std::vector<int32_t> tokens(n);
  for (int i = 0; i < n; ++i) tokens[i] = int32_t((uint64_t(i) * 7919 + 17) % uint64_t(vocab));
  return tokens;
}

void feed(Model& model, State& state, std::span<const int32_t> tokens) {
  const BatchItem item{&state, tokens, LogitRows::last};
  (void)model.run({&item, 1});
}

// Seconds of one decode step, whole and by part.
struct Decode {
  double seconds = 0;
  std::vector<TimePart> parts;
};

// From the position after `before`.
Decode measure_decode(Model& model, State& state, std::span<const int32_t> before, std::span<const int32_t> tokens) {
  const int depth = int(before.size());
  if (state.length() < depth) feed(model, state, before);
  const std::vector<TimePart> start = model.times();
  Decode decode;
  decode.seconds = seconds([&] {
    for (size_t i = 0; i < tokens.size(); ++i) feed(model, state, tokens.subspan(i, 1));
  });
  decode.seconds /= double(tokens.size());
  decode.parts = model.times();
  for (size_t p = 0; p < decode.parts.size(); ++p) {
    decode.parts[p].seconds = (decode.parts[p].seconds - start[p].seconds) / double(tokens.size());
  }
  // Recurrent parts do not go back: the next measurement feeds `before` again.
  state.truncate(depth >= state.earliest() ? depth : 0);
  return decode;
}

bool has_mixture(const Network& network) {
  return std::any_of(network.blocks.begin(), network.blocks.end(),
                     [](const Block& block) { return std::holds_alternative<Moe>(block.ffn); });
}

// What a decode step at `depth` moves of the caches: f16 keys and values are read, fp32 recurrent states read and written.
uint64_t cache_bytes(const Network& network, int depth) {
  uint64_t bytes = 0;
  for (const Block& block : network.blocks) {
    if (const auto* a = std::get_if<Attention>(&block.mixer)) {
      const int seen = a->window > 0 ? std::min(depth, a->window) : depth;
      bytes += uint64_t(seen) * a->kv_heads * a->head_dim * 2 * sizeof(uint16_t);
    } else {
      const DeltaNet& d = std::get<DeltaNet>(block.mixer);
      const uint64_t channels = 2 * uint64_t(d.key_heads) * d.key_dim + uint64_t(d.value_heads) * d.value_dim;
      const uint64_t state = uint64_t(d.value_heads) * d.value_dim * d.key_dim + uint64_t(d.kernel - 1) * channels;
      bytes += 2 * state * sizeof(float);
    }
  }
  return bytes;
}

}  // namespace

Result<ModelBench> bench_model(const Network& network, Model& model, int threads, const ModelBenchOptions& options) {
  const std::unique_ptr<State> state = model.new_state();
  const int positions = std::max(options.depth + options.tokens, options.prefill_rows);
  if (Status status = model.reserve(*state, positions); !status) return status.error();
  const std::vector<int32_t> tokens = some_tokens(positions, model.vocab());
  const std::span<const int32_t> all(tokens);

  ModelBench bench;
  std::vector<double> times;
  for (int i = 0; i <= options.repeats; ++i) {  // the first one warms up
    const double time = seconds([&] { feed(model, *state, all.first(size_t(options.prefill_rows))); });
    state->truncate(0);
    if (i > 0 || options.repeats == 0) times.push_back(time);
  }
  bench.prefill_tokens_per_second = options.prefill_rows / median(times);

  const std::span<const int32_t> next = all.subspan(size_t(options.depth), size_t(options.tokens));
  std::vector<Decode> decodes;
  for (int i = 0; i < std::max(options.repeats, 1); ++i) {
    decodes.push_back(measure_decode(model, *state, all.first(size_t(options.depth)), next));
  }
  const auto middle = decodes.begin() + decodes.size() / 2;
  std::nth_element(decodes.begin(), middle, decodes.end(),
                   [](const Decode& a, const Decode& b) { return a.seconds < b.seconds; });
  bench.decode_tokens_per_second = 1 / middle->seconds;
  bench.decode_parts = middle->parts;

  uint64_t weights = 0;
  for (const MemoryPart& part : model.memory()) weights += part.name == "weights" ? part.bytes : 0;
  // Of a mixture a token reads its own experts only; packed matrices are about as large as those in the file.
  if (weights == 0 || has_mixture(network)) weights = bytes_per_token(network);
  bench.bytes_per_token = weights + cache_bytes(network, options.depth + options.tokens / 2);
  bench.read_bytes_per_second = double(bench.bytes_per_token) * bench.decode_tokens_per_second;
  bench.bandwidth = measure_read_bandwidth(threads);
  bench.bandwidth_share = bench.bandwidth > 0 ? bench.read_bytes_per_second / bench.bandwidth : 0;
  return bench;
}

}  // namespace drafthorse
