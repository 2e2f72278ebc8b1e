#pragma once
// What this machine's memory delivers to plain reads: the bound that decode speeds are held against.

#include <cstdint>
#include <span>

#include "core/thread_pool.h"

namespace drafthorse {

// Bytes a second that the pool reaches when it reads all of `parts` front to back, each worker taking chunks of them as
// the matrix products do: for several prefetch distances (none, too) the median of `passes`, of which the best counts.
// `parts` should exceed the caches several times over.
double measure_read_bandwidth(ThreadPool& pool, std::span<const std::span<const uint8_t>> parts, int passes = 5);

// The same over 256 MiB of its own, with `threads` threads.
double measure_read_bandwidth(int threads);

}  // namespace drafthorse
