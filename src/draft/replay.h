#pragma once
// A text that is known already is proposed again, with a set share of errors: what drafting costs and gains can so be
// measured at any acceptance, whatever the weights are.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/rng.h"
#include "draft/drafter.h"

namespace drafthorse {

class Replay {
 public:
  // tokens: prompt and answer. Ids are below `vocab`, which is at least 2.
  void record(std::vector<int32_t> tokens, int vocab);
  // Every proposal is wrong with probability 1 - acceptance, independently of the others and of earlier proposals for the
  // same place. The same seed gives the same errors for the same questions.
  void start(double acceptance, uint64_t seed);
  // What is proposed for this index of the sequence: the recorded token or another id; none beyond the record.
  std::optional<int32_t> propose(size_t index);

 private:
  std::vector<int32_t> tokens_;
  int vocab_ = 2;
  double acceptance_ = 1;
  uint64_t seed_ = 0, questions_ = 0;
};

// Proposes from the replay, which only one sequence at a time may use. Name: "replay".
std::unique_ptr<Drafter> make_replay_drafter(std::shared_ptr<Replay> replay);

}  // namespace drafthorse
