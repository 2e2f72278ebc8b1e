#pragma once
// How a drafting head wants its input, found by trying: checkpoints do not always say.

#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace drafthorse {

struct HeadInput {
  Hidden hidden = Hidden::after_norm;
  bool embedding_first = true;
};

// How often, of the positions of `text`, the head names the token that the model finds likeliest, in [0, 1]: what share
// of its first drafts a greedy answer like this text would accept. Error: out_of_memory when there is no room to try.
Result<double> head_agreement(Model& model, Model& head, Hidden hidden, std::span<const int32_t> text);

// Of both hidden vectors and both orders the input with the highest agreement. The usual one (after the norm, embedding
// first) wins where another is not clearly better. text: at least 8 tokens of ordinary text. Errors: those of loading the
// head, and out_of_memory.
struct ProbedHead {
  HeadInput input;
  double agreement = 0;
};
Result<ProbedHead> probe_head(Model& model, const Network& network, std::span<const int32_t> text);

}  // namespace drafthorse
