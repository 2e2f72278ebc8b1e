#pragma once
// SentencePiece's BPE: the adjacent pair whose joined string has the highest score is joined first, leftmost on ties.

#include <memory>
#include <string>
#include <vector>

#include "text/subword_model.h"

namespace drafthorse {

struct ScoredToken {
  std::string text;
  int32_t id;
  double score;
  bool unused;  // may be passed through, never stays: what remains of it is taken apart again
};

// bytes[b]: id of <0xXX>, or -1; unk: id for characters without a token and without byte tokens, or -1 to leave them
// out.
std::unique_ptr<const SubwordModel> make_score_bpe(std::vector<ScoredToken> tokens, std::vector<int32_t> bytes,
                                                   int32_t unk);

}  // namespace drafthorse
