#include "engine/kept_states.h"

#include <algorithm>

namespace drafthorse {
namespace {
constexpr size_t kLeastShared = 16;  // tokens; less is computed sooner than managed
}

void KeptStates::keep(std::vector<int32_t> tokens, std::unique_ptr<State> state) {
  if (limit_ <= 0 || tokens.size() < kLeastShared) return;
  entries_.push_back({std::move(tokens), std::move(state)});
  if (entries_.size() > static_cast<size_t>(limit_)) drop_oldest();
}

std::unique_ptr<State> KeptStates::take(std::span<const int32_t> prompt) {
  size_t best_shared = kLeastShared - 1;
  auto best = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const size_t most = std::min(it->tokens.size(), prompt.size() - 1);
    const auto end = it->tokens.begin() + static_cast<ptrdiff_t>(most);
    const auto shared =
        static_cast<size_t>(std::mismatch(it->tokens.begin(), end, prompt.begin()).first - it->tokens.begin());
    if (shared > best_shared && shared * 2 >= it->tokens.size()) {
      best_shared = shared;
      best = it;
    }
  }
  if (best == entries_.end()) return nullptr;
  auto state = std::move(best->state);
  entries_.erase(best);
  state->truncate(static_cast<int>(best_shared));
  return state;
}

bool KeptStates::drop_oldest() {
  if (entries_.empty()) return false;
  entries_.pop_front();
  return true;
}

}  // namespace drafthorse
