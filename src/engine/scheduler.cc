#include "engine/scheduler.h"

#include <algorithm>
#include <exception>
#include <numeric>

namespace drafthorse {
namespace {

constexpr double kEntrySafety = 1.5;      // by which what a head is to save exceeds what its start costs
constexpr double kTryingShare = 0.02;     // of the steps so far that may go into trying a head that promises nothing
constexpr double kCheapToLeaveOut = 1.5;  // rate with drafts over that without, up to which a plain step costs little

// Tokens that a draft may have: the row after the last one brings a token too, and every row needs a position.
int draft_limit(const Sequence& s, const StepLimits& limits) {
  const int most = s.request.max_draft > 0 ? s.request.max_draft : kMostDraft;
  return std::min({most, kMostDraft, s.room(limits.context) - 1});
}

// Asks the drafter for what the request may still use. Ids that the model does not know end the proposal.
void propose(Sequence& s, int limit, int vocab) {
  if (!s.drafter || limit <= 0) return;
  try {
    s.draft = s.drafter->propose(limit);
    s.evidence = std::clamp(s.drafter->evidence(), 0, kEvidenceClasses - 1);
  } catch (const std::exception&) {
    s.draft.clear();
    s.drafter.reset();  // a drafter that fails costs its request the speed, not the answer
    return;
  }
  if (s.draft.size() > static_cast<size_t>(limit)) s.draft.resize(static_cast<size_t>(limit));
  const auto unknown =
      std::find_if(s.draft.begin(), s.draft.end(), [&](int32_t token) { return token < 0 || token >= vocab; });
  s.draft.erase(unknown, s.draft.end());
}

int head_limit(const Sequence& s, int limit) {
  return s.head && s.head->pending_rows() > 0 ? std::clamp(limit, 0, kMostMtpDepth) : 0;
}

// A length that the request sets (tests do): the drafter's proposal, or the head's where it has none.
void force(Sequence& s, int limit) {
  s.source = s.draft.empty() ? DraftSource::none : DraftSource::drafter;
  if (s.source == DraftSource::none && (s.head_depth = head_limit(s, limit)) > 0) s.source = DraftSource::head;
}

void park(Sequence& s, std::string_view name) {
  ++s.stats.by_drafter[std::string(name)].parked;
  ++s.stats.speculation.parked;
}

// Time, in 1-row steps, of entering what the head's cache lacks: at first the whole prompt.
double entering(const Sequence& s, const StepLimits& limits) {
  return s.head ? std::max(0, s.head->pending_rows() - 1) * limits.entry_cost : 0;
}

// Whether a head that makes `with` tokens per time in place of `without` is worth its start in what is likely left of
// the answer.
bool saves_its_start(const Sequence& s, double with, double without, const StepLimits& limits) {
  const double done = s.stats.completion_tokens;
  const double left = std::min<double>(s.room(limits.context), std::max(s.experience.answer - done, done / 2));
  return left * (1 / without - 1 / with) >= kEntrySafety * entering(s, limits);
}

// Of drafter and head the one that promises more tokens per time in this step; head costs what it takes to run it. One
// whose steps did not pay of late is not asked.
DraftOffer choose(Sequence& s, int limit, int decode_rows, int other_rows, const StepLimits& limits) {
  if (!s.draft.empty() && !s.drafter_balance[static_cast<size_t>(s.evidence)].allows()) {
    park(s, s.drafter->name());
    s.shadow.watch(s.evidence, s.draft);
    s.draft.clear();
  }
  int head_tokens = head_limit(s, limit);
  if (head_tokens > 0 && !s.head_balance.allows()) {
    park(s, "mtp");
    head_tokens = 0;
  }
  const DraftOffer drafter{&s.experience.drafter, s.evidence, static_cast<int>(s.draft.size()), 0};
  const DraftOffer head{&s.experience.head, 0, head_tokens, limits.head_cost};
  const auto rate = [&](const DraftOffer& offer) { return best_rate(offer, decode_rows, other_rows, limits.row_cost); };
  const double by_head = rate(head), otherwise = rate(drafter);
  const bool starts = by_head <= otherwise || saves_its_start(s, by_head, otherwise, limits);
  const bool use_head = head.length > 0 && starts && (drafter.length == 0 || by_head > otherwise);
  s.source = use_head ? DraftSource::head : drafter.length > 0 ? DraftSource::drafter : DraftSource::none;
  if (use_head && drafter.length > 0) s.shadow.watch(s.evidence, s.draft);
  return use_head ? head : drafter;
}

// Cuts proposals to what pays; watches those that are left out.
void allot(std::span<Sequence* const> drafting, int decode_rows, int other_rows, const StepLimits& limits) {
  std::vector<DraftOffer> offers;
  for (Sequence* s : drafting) offers.push_back(choose(*s, draft_limit(*s, limits), decode_rows, other_rows, limits));
  auto allotted = allot_drafts(offers, decode_rows, other_rows, limits.row_cost);
  if (limits.plain_due && offers.size() == 1) {
    const double without = decode_rows / step_cost(limits.row_cost, other_rows);
    if (best_rate(offers[0], decode_rows, other_rows, limits.row_cost) < kCheapToLeaveOut * without) allotted[0] = 0;
  }
  const int drafted = std::accumulate(allotted.begin(), allotted.end(), 0);
  for (size_t i = 0; i < drafting.size(); ++i) {
    Sequence& s = *drafting[i];
    if (s.source == DraftSource::head) {
      s.draft.clear();
      s.decode_rows = decode_rows;
      s.rows_beside = other_rows + drafted - allotted[i];
      s.head_depth = allotted[i] > 0 ? offers[i].length : 0;
      if (allotted[i] > 0) {
        s.head_retry.reset();
      } else {
        park(s, "mtp");
        const double trying = entering(s, limits) + limits.head_cost;
        if (s.head_retry.due() && trying < kTryingShare * static_cast<double>(s.stats.speculation.steps))
          s.head_depth = 1;
      }
      continue;
    }
    if (allotted[i] == 0 && !s.draft.empty()) {
      park(s, s.drafter->name());
      s.shadow.watch(s.evidence, s.draft);
    }
    s.draft.resize(static_cast<size_t>(allotted[i]));
  }
}

}  // namespace

void plan_step(std::span<const std::shared_ptr<Sequence>> running, const StepLimits& limits) {
  int prefill_left = std::max(1, limits.prefill_chunk);
  auto prefilling = std::count_if(running.begin(), running.end(), [](const auto& s) { return s->pending() > 1; });
  int decode_rows = 0, prefill_rows = 0, forced_rows = 0;
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
    s.source = DraftSource::none;
    s.head_depth = 0;
    if (pending > 1) {
      prefill_left -= count;
      --prefilling;
      prefill_rows += count;
      continue;
    }
    ++decode_rows;
    const int limit = draft_limit(s, limits);
    propose(s, limit, limits.vocab);
    if (s.request.max_draft > 0) {
      force(s, limit);
      forced_rows += static_cast<int>(s.draft.size()) + s.head_depth;
    } else if (!s.draft.empty() || head_limit(s, limit) > 0) {
      drafting.push_back(&s);
    }
  }
  if (!drafting.empty()) allot(drafting, decode_rows, decode_rows + prefill_rows + forced_rows, limits);
}

void add_draft_rows(std::span<const std::shared_ptr<Sequence>> running) {
  for (const auto& s : running) s->rows.insert(s->rows.end(), s->draft.begin(), s->draft.end());
}

}  // namespace drafthorse
