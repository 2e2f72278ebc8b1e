#pragma once
// What one token drafted by a model's head costs.

#include "backend/backend.h"

namespace drafthorse {

// Seconds of a 1-row run of the head with logits over those of a 1-row step of the model: the shortest of a few of each.
// Uses scratch states that are gone afterwards. 1e9, with which the head is never used, when there is no memory for them.
double measure_head_cost(Model& model, Model& head);

}  // namespace drafthorse
