#include "draft/replay.h"

#include <algorithm>
#include <utility>

namespace drafthorse {
namespace {

class ReplayDrafter final : public Drafter {
 public:
  explicit ReplayDrafter(std::shared_ptr<Replay> replay) : replay_(std::move(replay)) {}
  std::string_view name() const override { return "replay"; }
  void extend(std::span<const int32_t> tokens) override { length_ += tokens.size(); }
  std::vector<int32_t> propose(int limit) override {
    std::vector<int32_t> draft;
    for (int i = 0; i < limit; ++i) {
      const auto token = replay_->propose(length_ + draft.size());
      if (!token) break;
      draft.push_back(*token);
    }
    return draft;
  }

 private:
  std::shared_ptr<Replay> replay_;
  size_t length_ = 0;
};

}  // namespace

void Replay::record(std::vector<int32_t> tokens, int vocab) {
  tokens_ = std::move(tokens);
  vocab_ = std::max(2, vocab);
}

void Replay::start(double acceptance, uint64_t seed) {
  acceptance_ = acceptance;
  seed_ = seed;
  questions_ = 0;
}

std::optional<int32_t> Replay::propose(size_t index) {
  if (index >= tokens_.size()) return std::nullopt;
  const auto bits = token_bits(seed_, questions_++, 0);
  const int32_t token = tokens_[index];
  if ((bits[0] + 0.5) * 0x1p-32 < acceptance_) return token;
  const auto step = 1 + static_cast<int64_t>(bits[1] % static_cast<uint32_t>(vocab_ - 1));
  return static_cast<int32_t>((token + step) % vocab_);
}

std::unique_ptr<Drafter> make_replay_drafter(std::shared_ptr<Replay> replay) {
  return std::make_unique<ReplayDrafter>(std::move(replay));
}

}  // namespace drafthorse
