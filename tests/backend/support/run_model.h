#pragma once
// Loading and feeding models in tests.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "backend/backend.h"

namespace drafthorse::test {

using Logits = std::vector<float>;

inline std::unique_ptr<Model> load(const Network& network, const BackendOptions& options) {
  Result<std::unique_ptr<Model>> model = load_model(network, options);
  if (!model) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

inline BackendOptions cpu(int threads = 1, const char* isa = "auto") {
  BackendOptions options;
  options.backend = "cpu";
  options.threads = threads;
  options.isa = isa;
  return options;
}

inline BackendOptions reference(bool quantised) {
  BackendOptions options;
  options.backend = "reference";
  options.quantised_activations = quantised;
  return options;
}

inline std::vector<int32_t> random_tokens(int n, int vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t& t : tokens) t = int32_t(random() % unsigned(vocab));
  return tokens;
}

// Logits of every token, fed in chunks to the state.
inline Logits run(Model& model, State& state, std::span<const int32_t> tokens, int chunk) {
  Logits all;
  for (size_t i = 0; i < tokens.size(); i += size_t(chunk)) {
    const BatchItem item{&state, tokens.subspan(i, std::min(size_t(chunk), tokens.size() - i)), LogitRows::all};
    const RunOutput out = model.run({&item, 1});
    if (size_t(out.rows) != item.tokens.size()) throw std::runtime_error("run gave another number of rows");
    all.insert(all.end(), out.logits.begin(), out.logits.end());
  }
  return all;
}

inline Logits run(Model& model, std::span<const int32_t> tokens, int chunk) {
  const std::unique_ptr<State> state = model.new_state();
  return run(model, *state, tokens, chunk);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Kullback-Leibler divergence of softmax(b) from softmax(a), the mean over rows of `vocab` logits.
inline double mean_divergence(std::span<const float> a, std::span<const float> b, int vocab) {
  auto log_sum = [](std::span<const float> x) {
    const double most = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (float v : x) sum += std::exp(v - most);
    return most + std::log(sum);
  };
  double total = 0;
  for (size_t at = 0; at < a.size(); at += size_t(vocab)) {
    const auto x = a.subspan(at, size_t(vocab)), y = b.subspan(at, size_t(vocab));
    const double zx = log_sum(x), zy = log_sum(y);
    for (int i = 0; i < vocab; ++i) total += std::exp(x[i] - zx) * ((x[i] - zx) - (y[i] - zy));
  }
  return total / (double(a.size()) / vocab);
}

// n tokens, each the most likely one.
inline std::vector<int32_t> greedy(Model& model, std::vector<int32_t> tokens, int n) {
  const std::unique_ptr<State> state = model.new_state();
  std::vector<int32_t> out;
  for (int i = 0; i < n; ++i) {
    const BatchItem item{state.get(), tokens, LogitRows::last};
    const RunOutput run = model.run({&item, 1});
    out.push_back(int32_t(std::max_element(run.logits.begin(), run.logits.end()) - run.logits.begin()));
    tokens = {out.back()};
  }
  return out;
}

}  // namespace drafthorse::test
