#include "draft/confidence.h"

#include <array>
#include <cmath>

namespace drafthorse {
namespace {

constexpr std::array<float, kEvidenceClasses - 1> kBounds = {0.35f, 0.55f, 0.7f, 0.85f, 0.95f};
constexpr float kNegligible = 14;  // below the token's logit by this: 30,000 of them come to less than 0.03 of it

}  // namespace

float probability_of(std::span<const float> logits, int32_t token) {
  const float own = logits[static_cast<size_t>(token)];
  float sum = 0;
  for (float logit : logits) {
    if (logit > own - kNegligible) sum += std::exp(logit - own);
  }
  return sum > 0 ? 1 / sum : 0;
}

int confidence_class(float probability) {
  int found = 0;
  for (float bound : kBounds) found += probability >= bound;
  return found;
}

}  // namespace drafthorse
