#pragma once
// States of finished sequences, kept for prompts that extend them: the next turn of a conversation then computes
// its new tokens only. Their memory is the first to go when the KV pool is short.

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "draft/mtp.h"

namespace drafthorse {

class KeptStates {
 public:
  // What a sequence leaves behind: the model's state and, where there is one, the drafting head's.
  struct Kept {
    std::unique_ptr<State> state;
    std::unique_ptr<MtpHistory> head;
  };

  explicit KeptStates(int limit) : limit_(limit) {}

  // tokens: what the state holds, state->length() of them.
  void keep(std::vector<int32_t> tokens, Kept kept);
  // The state that shares the longest beginning with `prompt`, cut to it; null when none shares enough to be worth
  // losing the rest of it, or can go back to where they part. At least one token of the prompt is left to compute.
  Kept take(std::span<const int32_t> prompt);
  // Frees the one that was kept longest ago; false when there is none.
  bool drop_oldest();

 private:
  struct Entry {
    std::vector<int32_t> tokens;
    Kept kept;
  };

  int limit_;
  std::list<Entry> entries_;  // oldest first
};

}  // namespace drafthorse
