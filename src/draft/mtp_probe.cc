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

// What the model says of a text: the token it finds likeliest after every position but the last, and hidden vectors.
struct Told {
  std::vector<int32_t> likeliest;
  std::vector<float> hidden;  // [positions, hidden]
};

Result<Told> ask_model(Model& model, Hidden hidden, std::span<const int32_t> text) {
  const auto state = model.new_state();
  if (Status status = model.reserve(*state, static_cast<int>(text.size())); !status) return status.error();
  const auto vocab = static_cast<size_t>(model.vocab());
  Told told;
  for (size_t first = 0; first + 1 < text.size(); first += kChunk) {
    const size_t rows = std::min(kChunk, text.size() - 1 - first);
    BatchItem item{state.get(), text.subspan(first, rows), LogitRows::all};
    item.hidden = hidden;
    const RunOutput out = model.run({&item, 1}, {});
    for (size_t r = 0; r < rows; ++r) told.likeliest.push_back(likeliest(out.logits.subspan(r * vocab, vocab)));
    told.hidden.insert(told.hidden.end(), out.hidden.begin(), out.hidden.end());
  }
  return told;
}

// The share of positions whose token two further on head and model agree on.
Result<double> ask_head(Model& head, const Told& told, std::span<const int32_t> text) {
  const auto state = head.new_state();
  if (Status status = head.reserve(*state, static_cast<int>(text.size())); !status) return status.error();
  const auto vocab = static_cast<size_t>(head.vocab()), width = static_cast<size_t>(head.hidden());
  const size_t positions = told.likeliest.size();
  size_t agreed = 0;
  for (size_t first = 0; first < positions; first += kChunk) {
    const size_t rows = std::min(kChunk, positions - first);
    BatchItem item{state.get(), text.subspan(first + 1, rows), LogitRows::all};
    item.joined = std::span(told.hidden).subspan(first * width, rows * width);
    const RunOutput out = head.run({&item, 1}, {});
    for (size_t r = 0; r < rows && first + r + 1 < positions; ++r)
      agreed += likeliest(out.logits.subspan(r * vocab, vocab)) == told.likeliest[first + r + 1];
  }
  return positions > 1 ? static_cast<double>(agreed) / static_cast<double>(positions - 1) : 0.0;
}

}  // namespace

Result<double> head_agreement(Model& model, Model& head, Hidden hidden, std::span<const int32_t> text) {
  const Result<Told> told = ask_model(model, hidden, text.first(std::min<size_t>(text.size(), model.context())));
  if (!told) return told.error();
  return ask_head(head, *told, text);
}

Result<ProbedHead> probe_head(Model& model, const Network& network, std::span<const int32_t> text) {
  text = text.first(std::min<size_t>(text.size(), model.context()));
  ProbedHead best;
  best.agreement = -1;
  for (Hidden hidden : {Hidden::after_norm, Hidden::before_norm}) {
    const Result<Told> told = ask_model(model, hidden, text);
    if (!told) return told.error();
    for (bool embedding_first : {true, false}) {
      Network variant = *network.mtp;
      variant.joined_input->embedding_first = embedding_first;
      Result<std::unique_ptr<Model>> head = model.load_companion(variant);
      if (!head) return head.error();
      const Result<double> agreement = ask_head(**head, *told, text);
      if (!agreement) return agreement.error();
      if (*agreement > best.agreement + (best.agreement < 0 ? 0 : kClearlyBetter))
        best = {{hidden, embedding_first}, *agreement};
    }
  }
  return best;
}

}  // namespace drafthorse
