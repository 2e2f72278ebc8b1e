#pragma once
// A multi-token prediction head as a drafter: a small network whose row of token p + 1, joined with the model's hidden
// vector of position p, predicts token p + 2; chained on its own hidden vectors it predicts further.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace drafthorse {

inline constexpr int kMostMtpDepth = 8;  // tokens that a head is chained for

struct MtpItem;
struct MtpChoice {
  int32_t token = 0;
  bool more = true;  // draft another one after it, where the item's depth allows
};
// The token that a row of logits stands for, at this index of the item's sequence. The row may hold the first tokens of
// the vocabulary only.
using MtpPick = std::function<MtpChoice(size_t item, std::span<const float> logits, size_t index)>;

// One sequence's side of a head. Entry p of the head's cache pairs the hidden vector of position p with the token at
// p + 1. Entries are made late, many at once: what is not in the cache yet is kept here as hidden vectors.
class MtpHistory {
 public:
  explicit MtpHistory(Model& head) : head_(&head), state_(head.new_state()) {}

  // The model has run positions [first, first + rows); hidden: [rows, hidden]. Positions that were never told (a
  // beginning restored from elsewhere) count as zero vectors: the head then guesses worse, and nothing else.
  void extend(int first, std::span<const float> hidden);
  // The model holds `length` positions, and what follows them may differ from what did.
  void truncate(int length);
  // Positions whose hidden vectors are known: the model's length when all is well.
  int length() const { return state_->length() + pending_rows(); }
  int pending_rows() const { return static_cast<int>(pending_.size()) / std::max(1, head_->hidden()); }

 private:
  friend void draft_with_head(Model& head, std::span<MtpItem> items, const MtpPick& pick);
  Model* head_;
  std::unique_ptr<State> state_;
  std::vector<float> pending_;  // of positions state_->length(), ...
};

// What the head is asked for.
struct MtpItem {
  MtpHistory* history = nullptr;
  std::span<const int32_t> tokens;  // the whole sequence; tokens.size() > history->length()
  int depth = 0;                    // most tokens to draft; 0: only enter what is pending, but for the last position
  std::vector<int32_t> draft;       // result
  bool failed = false;              // the head had no memory for this sequence
};

// Drafts for several sequences together: one call that enters what is pending and gives each its first token, then one
// call for each further depth. Histories are left as they were but for the pending entries.
void draft_with_head(Model& head, std::span<MtpItem> items, const MtpPick& pick);

}  // namespace drafthorse
