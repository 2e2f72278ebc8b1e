#pragma once
// Which tokens a drafting head chooses among. The output matrix is most of what a small head costs, and vocabularies of
// byte-pair encoding number their tokens by frequency: the first part of the matrix drafts nearly as well as the whole.
// In English text and source code 5 to 7 % of tokens have an id past 32,768 (of 151,936), in Chinese half of them.

#include <cstdint>
#include <span>

namespace drafthorse {

// How many of the first tokens of the vocabulary to choose a draft from, by the latest of the sequence's `tokens`: the
// fewest for which nearly all of those are among them. 0: all.
int draft_columns(std::span<const int32_t> tokens, int vocab);

}  // namespace drafthorse
