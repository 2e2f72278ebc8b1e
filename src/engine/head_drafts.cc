#include "engine/head_drafts.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "draft/confidence.h"

namespace drafthorse {
namespace {

constexpr int kPendingFloats = 1 << 21;  // of hidden vectors that may wait for the head
constexpr int kPendingRows = 128;        // and so many vectors in any case

// What the head has drafted so far, and up to `length` tokens in all.
DraftOffer offer_of(const Sequence& s, const HeadDrafting& drafting, int length) {
  return {&s.experience.head, 0, length, drafting.head_cost, s.head_known};
}

int worth_verifying(const Sequence& s, const HeadDrafting& drafting, int length) {
  return best_drafts(offer_of(s, drafting, length), s.decode_rows, s.rows_beside, drafting.row_cost);
}

// Takes the token that the row gives; says whether another one pays.
MtpChoice take(Sequence& s, const HeadDrafting& drafting, std::span<const float> logits, size_t index) {
  const auto sampled = s.sampler.sample(logits, index, *drafting.scratch);
  MtpChoice choice{sampled ? sampled->token : 0, true};
  int confidence = confidence_class(probability_of(logits, choice.token));
  if (drafting.replace && *drafting.replace) {
    choice.token = (*drafting.replace)(index, choice.token);
    confidence = kUnknownConfidence;
  }
  s.head_confidence.push_back(confidence);
  const auto depth = static_cast<int>(s.head_confidence.size());
  s.head_known.push_back(confidence == kUnknownConfidence ? s.experience.head.conditional(0, depth)
                                                          : s.experience.confidence.conditional(confidence, depth));
  choice.more = s.request.max_draft > 0 || worth_verifying(s, drafting, s.head_depth) > depth;
  return choice;
}

void forget_drafts(Sequence& s) {
  s.head_draft.clear();
  s.head_confidence.clear();
  s.head_known.clear();
}

}  // namespace

void draft_with_heads(std::span<const std::shared_ptr<Sequence>> running, const HeadDrafting& drafting) {
  std::vector<Sequence*> members;
  std::vector<MtpItem> items;
  const int most_pending = std::max(kPendingRows, kPendingFloats / std::max(1, drafting.head->hidden()));
  for (const auto& s : running) {
    forget_drafts(*s);
    if (!s->head || (s->head_depth == 0 && s->head->pending_rows() < most_pending)) continue;
    members.push_back(s.get());
    items.push_back({s->head.get(), s->tokens, s->head_depth, {}, false});
  }
  if (items.empty()) return;
  try {
    draft_with_head(*drafting.head, items, [&](size_t i, std::span<const float> logits, size_t index) {
      return take(*members[i], drafting, logits, index);
    });
  } catch (const std::exception&) {
    for (Sequence* s : members) {
      s->head.reset();
      forget_drafts(*s);
    }
    return;
  }
  for (size_t i = 0; i < items.size(); ++i) {
    Sequence& s = *members[i];
    if (items[i].failed) s.head.reset();
    s.head_draft = std::move(items[i].draft);
    if (s.head_depth == 0) continue;
    const auto made = static_cast<int>(s.head_draft.size());
    const int kept = s.request.max_draft > 0 ? made : worth_verifying(s, drafting, made);
    s.draft.assign(s.head_draft.begin(), s.head_draft.begin() + kept);
  }
}

void judge_head_drafts(Sequence& s, std::span<const int32_t> grown) {
  for (size_t i = 0; i < s.head_draft.size() && i < grown.size(); ++i) {
    const bool agreed = grown[i] == s.head_draft[i];
    const auto depth = static_cast<int>(i) + 1;
    s.experience.head.observe_at(0, depth, agreed);
    if (s.head_confidence[i] != kUnknownConfidence)
      s.experience.confidence.observe_at(s.head_confidence[i], depth, agreed);
    if (!agreed) break;
  }
}

}  // namespace drafthorse
