#pragma once
// A Network as rows of a table: what lies where, in which shape and format, and how many bytes it takes.

#include <cstdint>
#include <string>
#include <vector>

#include "network/network.h"

namespace drafthorse {

struct TableRow {
  std::string part;    // "attention.q"
  std::string shape;   // "896 x 896"
  std::string format;  // "q4_k", "affine 4-bit group 64", "f32"
  uint64_t bytes = 0;  // of one such part
};

// Blocks whose parts have the same shapes and formats.
struct BlockKind {
  std::vector<int> blocks;  // indices, ascending
  std::string summary;      // "attention 14 heads, 2 kv heads of 64, rope 64; mlp silu"
  std::vector<TableRow> rows;
  uint64_t bytes = 0;  // of one block
};

std::vector<BlockKind> block_kinds(const Network& network);
// Embedding, final norm and head (left out when tied).
std::vector<TableRow> outer_rows(const Network& network);
// Of a drafting head: what joins its input, and its final norm; embedding and head are the model's.
std::vector<TableRow> head_rows(const Network& head);
// "joined with hidden vectors after the final norm, as the checkpoint says; embedding first".
std::string describe_head(const Network& network);
std::string format_text(const TensorView& tensor);
// {0, 1, 2, 5, 7, 8} is "0-2, 5, 7-8".
std::string ranges_text(const std::vector<int>& indices);

}  // namespace drafthorse
