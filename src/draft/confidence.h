#pragma once
// How sure a drafting head is of a token, as evidence: its own probability of what it drafts says more about whether the
// model will agree than the depth does.

#include <cstdint>
#include <span>

#include "draft/policy.h"

namespace drafthorse {

// exp(logits[token]) / sum exp(logits). In plain floating point: it decides how much is drafted, never what.
float probability_of(std::span<const float> logits, int32_t token);

// The class of a probability, in [0, kEvidenceClasses): below 0.35, 0.55, 0.7, 0.85, 0.95, and above.
int confidence_class(float probability);

// What a class is taken to be worth before the request has shown it: about the middle of its range.
inline constexpr Acceptance::Priors kConfidencePriors = {0.25, 0.45, 0.62, 0.77, 0.9, 0.97};

}  // namespace drafthorse
