#pragma once
// The reference backend: one thread, scalar loops, nothing packed. It says what each part of a Network means, and is
// what the other backends are compared with.

#include "backend/backend.h"

namespace drafthorse {

// options.quantised_activations false: fp32 activations and caches, sums of products in double (compared with other
// implementations within a bound). true: activations and caches quantised as the CPU backend does, every sum in its
// order (compared with it bit for bit).
Result<std::unique_ptr<Model>> load_reference(const Network& network, const BackendOptions& options);

}  // namespace drafthorse
