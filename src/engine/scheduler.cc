#include "engine/scheduler.h"

#include <algorithm>
#include <exception>

namespace drafthorse {
namespace {

// Asks the drafter for what the request may still use. Ids that the model does not know end the proposal.
void propose(Sequence& s, const StepLimits& limits) {
  s.draft.clear();
  if (!s.drafter) return;
  // The row after the last draft brings a token too, and every row needs a position.
  const int forced = s.request.max_draft > 0 ? s.request.max_draft : kMostDraft;
  const int limit = std::min({forced, kMostDraft, s.room(limits.context) - 1});
  if (limit <= 0) return;
  try {
    s.draft = s.drafter->propose(limit);
    s.evidence = s.drafter->evidence();
  } catch (const std::exception&) {
    s.draft.clear();
    s.drafter.reset();  // a drafter that fails costs its request the speed, not the answer
    return;
  }
  if (s.draft.size() > static_cast<size_t>(limit)) s.draft.resize(static_cast<size_t>(limit));
  const auto unknown =
      std::find_if(s.draft.begin(), s.draft.end(), [&](int32_t token) { return token < 0 || token >= limits.vocab; });
  s.draft.erase(unknown, s.draft.end());
}

// Cuts proposals to what pays; watches those that are left out.
void allot(std::span<Sequence* const> drafting, int decode_rows, int other_rows, const StepLimits& limits) {
  std::vector<DraftOffer> offers;
  for (const Sequence* s : drafting) offers.push_back({&s->acceptance, s->evidence, static_cast<int>(s->draft.size())});
  const auto allotted = allot_drafts(offers, decode_rows, other_rows, limits.row_cost);
  for (size_t i = 0; i < drafting.size(); ++i) {
    Sequence& s = *drafting[i];
    if (allotted[i] == 0) {
      ++s.stats.by_drafter[std::string(s.drafter->name())].parked;
      ++s.stats.speculation.parked;
      s.shadow.watch(s.evidence, s.draft);
    }
    s.draft.resize(static_cast<size_t>(allotted[i]));
  }
}

}  // namespace

void plan_step(std::span<const std::shared_ptr<Sequence>> running, const StepLimits& limits) {
  int prefill_left = std::max(1, limits.prefill_chunk);
  auto prefilling = std::count_if(running.begin(), running.end(), [](const auto& s) { return s->pending() > 1; });
  int decode_rows = 0, prefill_rows = 0;
  std::vector<Sequence*> drafting;
  for (const auto& sequence : running) {
    Sequence& s = *sequence;
    const int pending = s.pending();
    // Prompts share the chunk evenly, so that a short one does not wait for a long one; what one leaves, the next has.
    const int share =
        prefilling > 0 ? (prefill_left + static_cast<int>(prefilling) - 1) / static_cast<int>(prefilling) : 0;
    const int count = pending == 1 ? 1 : std::min(pending, share);
    const auto first = s.tokens.begin() + s.state->length();
    s.rows.assign(first, first + count);
    s.draft.clear();
    if (pending > 1) {
      prefill_left -= count;
      --prefilling;
      prefill_rows += count;
      continue;
    }
    ++decode_rows;
    propose(s, limits);
    if (!s.draft.empty() && s.request.max_draft == 0) drafting.push_back(&s);
  }
  int forced_rows = 0;
  for (const auto& s : running)
    if (s->request.max_draft > 0) forced_rows += static_cast<int>(s->draft.size());
  if (!drafting.empty()) allot(drafting, decode_rows, decode_rows + prefill_rows + forced_rows, limits);
  for (const auto& s : running) s->rows.insert(s->rows.end(), s->draft.begin(), s->draft.end());
}

}  // namespace drafthorse
