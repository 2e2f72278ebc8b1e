#pragma once
// States of finished sequences, kept for prompts that extend them: the next turn of a conversation then computes
// its new tokens only. Their memory is the first to go when the KV pool is short.

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace drafthorse {

class KeptStates {
 public:
  explicit KeptStates(int limit) : limit_(limit) {}

  // tokens: what the state holds, state->length() of them.
  void keep(std::vector<int32_t> tokens, std::unique_ptr<State> state);
  // The state that shares the longest beginning with `prompt`, cut to it; null when none shares enough to be worth
  // losing the rest of it. At least one token of the prompt is left to compute.
  std::unique_ptr<State> take(std::span<const int32_t> prompt);
  // Frees the one that was kept longest ago; false when there is none.
  bool drop_oldest();

 private:
  struct Entry {
    std::vector<int32_t> tokens;
    std::unique_ptr<State> state;
  };

  int limit_;
  std::list<Entry> entries_;  // oldest first
};

}  // namespace drafthorse
