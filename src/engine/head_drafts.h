#pragma once
// Drafts of a multi-token prediction head, made a token at a time for as long as the next one promises to pay.

#include <functional>
#include <memory>
#include <span>

#include "backend/backend.h"
#include "engine/sampler.h"
#include "engine/sequence.h"

namespace drafthorse {

struct HeadDrafting {
  Model* head = nullptr;
  std::span<const double> row_cost;  // as in StepLimits
  double head_cost = 0;
  SamplerScratch* scratch = nullptr;
  const std::function<int32_t(size_t index, int32_t token)>* replace = nullptr;  // EngineOptions::replace_head_token
};

// Drafts for the sequences that the plan wants drafts of (head_depth > 0) and cuts what does not pay after all; enters
// what has piled up (a prompt's rows) where it wants none. A head that fails leaves its sequence without one: that costs
// the speed, not the answer.
void draft_with_heads(std::span<const std::shared_ptr<Sequence>> running, const HeadDrafting& drafting);

// Learns from how the sequence grew (`grown`, in place of what was drafted at the same places) what the head's drafts of
// this step are worth, verified or not.
void judge_head_drafts(Sequence& s, std::span<const int32_t> grown);

}  // namespace drafthorse
