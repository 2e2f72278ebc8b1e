#pragma once
// Softmax attention over a KV cache of f16 blocks, in an order that depends on nothing but the query's position:
// the positions it sees are cut into segments of 256 (aligned); each segment has its own maximum, sum and weighted
// values; segments are merged in order. Threads and callers may compute segments anywhere, and queries in any company.
//
// In a segment: score(j) = sum over d in order of fma(q[d], k[j][d], .), softcap when set; p(j) = exp(score(j) - max);
// sum = 256 terms (0 where unseen) by halves, 128 + 128, ..., 1 + 1; out[d] = sum over j in order of fma(p(j), v[j][d], .).

#include <cstdint>

namespace drafthorse::cpu {

inline constexpr int kKvBlock = 64;          // positions of a KV block
inline constexpr int kSoftmaxSegment = 256;  // positions of a segment
inline constexpr int kSoftmaxBlocks = kSoftmaxSegment / kKvBlock;
inline constexpr int kTileQueries = 48;  // queries that one task may hold

// Softmax over some positions, not yet divided: weights are relative to exp(max).
struct Softmax {
  float max = 0, sum = 0;
  float* out = nullptr;  // [head_dim]
};

// Queries of one kv head against one segment.
struct SegmentTask {
  int queries = 0;  // <= kTileQueries
  int head_dim = 0;
  float softcap = 0;             // 0: none
  const float* q[kTileQueries];  // [head_dim] each; rope applied, times the attention's scale
  int first[kTileQueries];       // the query sees positions [first, last) of the segment, at least one
  int last[kTileQueries];
  const uint16_t* keys[kSoftmaxBlocks];    // f16 [head_dim][64]: a lane is a position
  const uint16_t* values[kSoftmaxBlocks];  // f16 [64][head_dim]
  const uint16_t* after = nullptr;         // keys that the caller will want next, for the cache's sake
};

// RowKernels::merge: into = into and then next, both weighted to the larger maximum:
//   a = exp(into.max - max), b = exp(next.max - max); sum = fma(into.sum, a, next.sum * b), out alike.
// RowKernels::finish: out[d] /= sum.

}  // namespace drafthorse::cpu
