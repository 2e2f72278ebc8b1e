// Continues token ids greedily, for comparisons with other implementations (tools/mlx_oracle.py).
//
//   greedy_tokens MODEL BACKEND COUNT < prompts > continuations
//
// BACKEND: cpu, reference (quantised activations) or reference-fp32. A line of standard input is a prompt, token ids
// between spaces; a line of standard output has the COUNT tokens that follow it. With a COUNT of 0 the output is the
// logits of the prompts' tokens, float32 [prompt][position][vocab].

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace {

using namespace drafthorse;  // NOLINT: a program

int fail(const std::string& message) {
  std::fprintf(stderr, "greedy_tokens: %s\n", message.c_str());
  return 1;
}

int continue_prompts(Model& model, int count) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::vector<int32_t> tokens;
    for (int32_t token; words >> token;) tokens.push_back(token);
    const bool known =
        std::all_of(tokens.begin(), tokens.end(), [&](int32_t t) { return t >= 0 && t < model.vocab(); });
    if (tokens.empty() || !words.eof() || !known) return fail("not a list of token ids: " + line);
    const std::unique_ptr<State> state = model.new_state();
    if (Status room = model.reserve(*state, int(tokens.size()) + count); !room) return fail(room.error().message);
    if (count == 0) {
      const BatchItem item{state.get(), tokens, LogitRows::all};
      const RunOutput out = model.run({&item, 1});
      std::fwrite(out.logits.data(), sizeof(float), out.logits.size(), stdout);
      continue;
    }
    for (int i = 0; i < count; ++i) {
      const BatchItem item{state.get(), tokens, LogitRows::last};
      const RunOutput out = model.run({&item, 1});
      tokens = {int32_t(std::max_element(out.logits.begin(), out.logits.end()) - out.logits.begin())};
      std::printf("%s%d", i ? " " : "", tokens[0]);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fail("usage: greedy_tokens MODEL cpu|reference|reference-fp32 COUNT");
  Result<std::shared_ptr<const Checkpoint>> checkpoint = Checkpoint::open(argv[1]);
  if (!checkpoint) return fail(checkpoint.error().message);
  Result<Network> network = read_network(*checkpoint);
  if (!network) return fail(network.error().message);
  const std::string backend = argv[2];
  BackendOptions options;
  options.backend = backend == "reference-fp32" ? "reference" : backend;
  options.quantised_activations = backend != "reference-fp32";
  Result<std::unique_ptr<Model>> model = load_model(*network, options);
  if (!model) return fail(model.error().message);
  return continue_prompts(**model, std::atoi(argv[3]));
}
