#pragma once
// A drafter proposes tokens that the model then verifies; it can never change the text, only the speed.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace drafthorse {

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual std::string_view name() const = 0;  // "lookup", "mtp", …
  // Tells the drafter that the sequence grew by these tokens (prompt or accepted output). Amortised O(1) a token.
  virtual void extend(std::span<const int32_t> tokens) = 0;
  // Up to `limit` tokens that may follow the sequence; empty when it has no idea.
  virtual std::vector<int32_t> propose(int limit) = 0;
  // How well founded the last proposal was, in [0, kEvidenceClasses): the policy keeps one estimate a class.
  virtual int evidence() const { return 0; }
};
inline constexpr int kEvidenceClasses = 6;

// Evidence of prompt lookup by the length of the match: 0: realigned after an edit (1-2 tokens), 1: 3, 2: 4-5,
// 3: 6-9, 4: 10-19, 5: 20 and more.
// Proposes what followed the longest earlier occurrence of the sequence's end. See prompt_lookup.cc.
std::unique_ptr<Drafter> make_prompt_lookup();

}  // namespace drafthorse
