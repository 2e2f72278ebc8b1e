#include "engine/kept_states.h"

#include <algorithm>

namespace drafthorse {
namespace {
constexpr size_t kLeastShared = 16;  // tokens; less is computed sooner than managed
}

void KeptStates::keep(std::vector<int32_t> tokens, Kept kept) {
  if (limit_ <= 0 || tokens.size() < kLeastShared) return;
  entries_.push_back({std::move(tokens), std::move(kept)});
  if (entries_.size() > static_cast<size_t>(limit_)) drop_oldest();
}

KeptStates::Kept KeptStates::take(std::span<const int32_t> prompt) {
  size_t best_shared = kLeastShared - 1;
  auto best = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const size_t most = std::min(it->tokens.size(), prompt.size() - 1);
    const auto end = it->tokens.begin() + static_cast<ptrdiff_t>(most);
    const auto shared =
        static_cast<size_t>(std::mismatch(it->tokens.begin(), end, prompt.begin()).first - it->tokens.begin());
    const bool reachable = static_cast<int>(shared) >= it->kept.state->earliest();
    if (reachable && shared > best_shared && shared * 2 >= it->tokens.size()) {
      best_shared = shared;
      best = it;
    }
  }
  if (best == entries_.end()) return {};
  Kept kept = std::move(best->kept);
  entries_.erase(best);
  kept.state->truncate(static_cast<int>(best_shared));
  if (kept.head) kept.head->truncate(static_cast<int>(best_shared));
  return kept;
}

bool KeptStates::drop_oldest() {
  if (entries_.empty()) return false;
  entries_.pop_front();
  return true;
}

}  // namespace drafthorse
