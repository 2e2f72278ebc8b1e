#pragma once
// Passes over a row of logits that the sampler makes. Every result is a fixed sequence of operations on the row, so
// that a sampled token is the same on every machine.

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace drafthorse {

// What a logit x becomes: (x - largest) / temperature, so at most 0.
struct Scale {
  float largest = 0, inverse_temperature = 1;
  float operator()(float x) const { return (x - largest) * inverse_temperature; }
};

using Candidate = std::pair<float, int32_t>;  // scaled logit, token

// Likelier first; the lower id on ties.
inline bool likelier(const Candidate& a, const Candidate& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

// The largest element, or NaN when the row holds NaN or +infinity.
float largest(std::span<const float> row);

// e^z for z <= 0 as a fixed sequence of fp32 operations without fma (error < 1e-7 relative); 0 below -80.
double token_weight(float z);

// Weights of a row by power of two: above[n] is the sum over tokens with round(-z / ln 2) < n, so above[kWeightBuckets]
// is the sum of all. A token's bucket never falls as its logit does.
inline constexpr int kWeightBuckets = 117;
struct RowWeights {
  std::array<double, kWeightBuckets + 1> above{};
  double total() const { return above[kWeightBuckets]; }
};
RowWeights row_weights(std::span<const float> row, Scale scale);

// The `k` likeliest tokens, unordered.
void select_top(std::span<const float> row, Scale scale, size_t k, std::vector<Candidate>& out);
// Tokens with a scaled logit of at least `lowest`, in order of id.
void select_above(std::span<const float> row, Scale scale, double lowest, std::vector<Candidate>& out);
// The shortest likeliest-first list of tokens whose weight reaches top_p (below 1) of the whole row's; at least one.
// `buffer` is memory that callers keep.
void select_nucleus(std::span<const float> row, Scale scale, double top_p, std::vector<Candidate>& out,
                    std::vector<Candidate>& buffer);
// Keeps of `candidates` the shortest likeliest-first list whose weight reaches `needed`, unordered; at least one.
void cut_at_weight(std::vector<Candidate>& candidates, double needed);

}  // namespace drafthorse
