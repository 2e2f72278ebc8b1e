// Prompt lookup: what followed the longest earlier occurrence of the sequence's end is likely to follow again.
//
// Index: for every position the previous position whose last three tokens hash alike (a chain, most recent first), and
// the same for the last twelve tokens, so that a long match is found however many short ones are newer. A match in
// progress is kept by its position alone: as long as the sequence goes on as the earlier occurrence did, it stays the
// longest and nothing is searched. Memory: 8 bytes a token for the chains, the tokens, and two tables of at most as
// many entries as tokens. After a long match breaks, its neighbourhood is searched for one or two tokens: an edited
// copy goes on a little further.

#include <algorithm>
#include <utility>
#include <vector>

#include "draft/drafter.h"

namespace drafthorse {
namespace {

constexpr int kShort = 3, kLong = 12;  // tokens of an indexed n-gram
constexpr int kMostCandidates = 32;    // of one chain that a search looks at
constexpr int kMostCompared = 64;      // tokens a candidate is followed backwards
constexpr int kRealignReach = 24;      // positions past a broken match that a realignment may jump to
constexpr int kRealignFrom = 8;        // shortest match whose breaking starts a realignment
constexpr int kRealignTokens = 8;      // tokens after the break during which it is tried

// Open addressing from n-gram hash to the last position that ended such an n-gram.
class PositionTable {
 public:
  // Returns the position stored before for this hash, or -1.
  int32_t exchange(uint64_t hash, int32_t position) {
    if (used_ * 2 >= slots_.size()) grow();
    Slot& slot = find(hash);
    if (slot.position < 0) {
      ++used_;
      slot.hash = hash;
    }
    return std::exchange(slot.position, position);
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    int32_t position = -1;
  };

  Slot& find(uint64_t hash) {
    size_t i = hash & (slots_.size() - 1);
    while (slots_[i].position >= 0 && slots_[i].hash != hash) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }

  void grow() {
    std::vector<Slot> old(std::max<size_t>(64, slots_.size() * 2));
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.position >= 0) find(slot.hash) = slot;
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

class PromptLookup final : public Drafter {
 public:
  std::string_view name() const override { return "lookup"; }

  void extend(std::span<const int32_t> tokens) override {
    for (int32_t token : tokens) append(token);
  }

  std::vector<int32_t> propose(int limit) override {
    if (limit <= 0) return {};
    if (next_ < 0) search();
    if (next_ < 0) realign();
    if (next_ < 0) return {};
    // The copy may run into the sequence's own end (a repetition): then it goes on from what it just proposed.
    std::vector<int32_t> draft;
    const int32_t end = size();
    for (int32_t i = 0; i < limit; ++i) {
      const int32_t from = next_ + i;
      draft.push_back(from < end ? tokens_[static_cast<size_t>(from)] : draft[static_cast<size_t>(from - end)]);
    }
    return draft;
  }

  int evidence() const override {
    if (realigned_) return 0;
    return matched_ >= 20 ? 5 : matched_ >= 10 ? 4 : matched_ >= 6 ? 3 : matched_ >= 4 ? 2 : 1;
  }

 private:
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }

  void append(int32_t token) {
    if (next_ >= 0) follow(token);
    tokens_.push_back(token);
    previous_short_.push_back(link(short_, kShort));
    previous_long_.push_back(link(long_, kLong));
    // A realignment long enough to be indexed is confirmed, or gives way to a longer match elsewhere.
    if (realigned_ && matched_ >= kShort) search();
  }

  // Goes on along the match in progress, or ends it.
  void follow(int32_t token) {
    if (tokens_[static_cast<size_t>(next_)] == token) {
      ++next_;
      ++matched_;
      return;
    }
    if (matched_ >= kRealignFrom) {
      broken_at_ = next_;
      broken_when_ = size();
    }
    next_ = -1;
    matched_ = 0;
    realigned_ = false;
  }

  // Enters the n-gram that ends with the last token; returns the position before that ended one alike, or -1.
  int32_t link(PositionTable& table, int length) {
    if (size() < length) return -1;
    uint64_t hash = 0x9E3779B97F4A7C15u + static_cast<uint64_t>(length);
    for (size_t i = tokens_.size() - static_cast<size_t>(length); i < tokens_.size(); ++i) {
      hash = (hash ^ static_cast<uint32_t>(tokens_[i])) * 0xBF58476D1CE4E5B9u;
      hash ^= hash >> 29;
    }
    return table.exchange(hash, size() - 1);
  }

  // Tokens that agree before the end of the sequence and before `position` + 1, at most kMostCompared.
  int match_length(int32_t position) const {
    int n = 0;
    const int32_t last = size() - 1;
    while (n < kMostCompared && n <= position &&
           tokens_[static_cast<size_t>(position - n)] == tokens_[static_cast<size_t>(last - n)])
      ++n;
    return n;
  }

  // Takes the longest indexed match, where it is longer than the one in progress.
  void search() {
    if (tokens_.empty()) return;
    int best = next_ >= 0 ? match_length(next_ - 1) : kShort - 1;
    for (const auto* chain : {&previous_long_, &previous_short_}) {
      int32_t position = chain->back();
      for (int seen = 0; position >= 0 && seen < kMostCandidates; ++seen) {
        const int n = match_length(position);
        if (n > best) {
          best = n;
          next_ = position + 1;
          matched_ = n;
        }
        position = (*chain)[static_cast<size_t>(position)];
      }
      if (best >= kLong) break;
    }
    realigned_ = false;
  }

  // The nearest place after a broken long match that ends as the sequence does now.
  void realign() {
    if (broken_at_ < 0 || size() - broken_when_ > kRealignTokens) return;
    const int32_t first = std::max(broken_at_ - 1, 0);
    const int32_t last = std::min(broken_at_ + kRealignReach, size() - 2);
    for (int needed : {2, 1}) {
      for (int32_t position = first; position <= last; ++position) {
        if (match_length(position) < needed) continue;
        next_ = position + 1;
        matched_ = needed;
        realigned_ = true;
        return;
      }
    }
  }

  std::vector<int32_t> tokens_;
  std::vector<int32_t> previous_short_, previous_long_;
  PositionTable short_, long_;
  int32_t next_ = -1;       // position after the match in progress: its token is the first draft; -1: no match
  int matched_ = 0;         // its length (at least)
  bool realigned_ = false;  // the match in progress began as a realignment and is not confirmed yet
  int32_t broken_at_ = -1, broken_when_ = 0;
};

}  // namespace

std::unique_ptr<Drafter> make_prompt_lookup() { return std::make_unique<PromptLookup>(); }

}  // namespace drafthorse
