#include "draft/mtp_probe.h"

#include <algorithm>
#include <vector>

namespace drafthorse {
namespace {

constexpr size_t kChunk = 32;  // rows of a run: logits of all rows are large
constexpr double kClearlyBetter = 0.05;

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

Result<double> head_agreement(Model& model, Model& head, Hidden hidden, std::span<const int32_t> text) {
  const auto model_state = model.new_state(), head_state = head.new_state();
  const auto length = std::min(text.size(), static_cast<size_t>(model.context()));
  for (const Status& status :
       {model.reserve(*model_state, static_cast<int>(length)), head.reserve(*head_state, static_cast<int>(length))})
    if (!status) return status.error();
  const auto vocab = static_cast<size_t>(model.vocab()), width = static_cast<size_t>(model.hidden());
  std::vector<int32_t> expected, found;  // of every position: what the model names next; what the head names after that
  for (size_t first = 0; first + 1 < length; first += kChunk) {
    // The head's rows need the token after each position.
    const size_t rows = std::min(kChunk, length - 1 - first);
    BatchItem item{model_state.get(), text.subspan(first, rows), LogitRows::all};
    item.hidden = hidden;
    const RunOutput out = model.run({&item, 1});
    for (size_t r = 0; r < rows; ++r) expected.push_back(likeliest(out.logits.subspan(r * vocab, vocab)));
    const std::vector<float> joined(out.hidden.begin(), out.hidden.begin() + static_cast<ptrdiff_t>(rows * width));
    BatchItem head_item{head_state.get(), text.subspan(first + 1, rows), LogitRows::all};
    head_item.joined = joined;
    const RunOutput drafts = head.run({&head_item, 1});
    for (size_t r = 0; r < rows; ++r) found.push_back(likeliest(drafts.logits.subspan(r * vocab, vocab)));
  }
  size_t agreed = 0;
  for (size_t p = 0; p + 1 < expected.size(); ++p) agreed += found[p] == expected[p + 1];
  return expected.size() > 1 ? static_cast<double>(agreed) / static_cast<double>(expected.size() - 1) : 0.0;
}

Result<ProbedHead> probe_head(Model& model, const Network& network, std::span<const int32_t> text) {
  ProbedHead best;
  best.agreement = -1;
  for (bool embedding_first : {true, false}) {
    Network variant = *network.mtp;
    variant.joined_input->embedding_first = embedding_first;
    Result<std::unique_ptr<Model>> head = model.load_companion(variant);
    if (!head) return head.error();
    for (Hidden hidden : {Hidden::after_norm, Hidden::before_norm}) {
      const Result<double> agreement = head_agreement(model, **head, hidden, text);
      if (!agreement) return agreement.error();
      if (*agreement > best.agreement + (best.agreement < 0 ? 0 : kClearlyBetter))
        best = {{hidden, embedding_first}, *agreement};
    }
  }
  return best;
}

}  // namespace drafthorse
