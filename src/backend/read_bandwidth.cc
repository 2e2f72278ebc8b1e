#include "backend/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include "backend/cpu/matmul.h"

namespace drafthorse {
namespace {

constexpr int64_t kStride = 256;  // bytes read in one turn of the loop
constexpr int kPrefetchDistances[] = {0, 512, 1024, 2048, 4096};

uint64_t sum_words(const uint8_t* p, int64_t bytes, int prefetch) {
  typedef uint64_t Words __attribute__((vector_size(32)));
  constexpr int kVectors = kStride / sizeof(Words);
  Words sums[kVectors] = {};
  for (int64_t i = 0; i + kStride <= bytes; i += kStride) {
    if (prefetch > 0)
      for (int line = 0; line < kStride; line += 64) __builtin_prefetch(p + i + prefetch + line);
    for (int j = 0; j < kVectors; ++j) {
      Words words;
      std::memcpy(&words, p + i + j * static_cast<int64_t>(sizeof words), sizeof words);
      sums[j] += words;
    }
  }
  for (int j = 1; j < kVectors; ++j) sums[0] += sums[j];
  return sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3];
}

// Seconds of one pass over everything. `sink` keeps the sums, so that no compiler may leave out the reads.
double read_all(ThreadPool& pool, std::span<const std::span<const uint8_t>> parts, int prefetch,
                std::atomic<uint64_t>& sink) {
  constexpr int64_t kChunk = 128 << 10;
  const auto start = std::chrono::steady_clock::now();
  for (std::span<const uint8_t> part : parts) {
    const auto size = static_cast<int64_t>(part.size());
    pool.parallel_for((size + kChunk - 1) / kChunk, 1, [&](int, int64_t begin, int64_t end) {
      const int64_t from = begin * kChunk, to = std::min(end * kChunk, size);
      sink.fetch_add(sum_words(part.data() + from, to - from, prefetch), std::memory_order_relaxed);
    });
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double measure_read_bandwidth(ThreadPool& pool, std::span<const std::span<const uint8_t>> parts, int passes) {
  double bytes = 0, best = 0;
  for (std::span<const uint8_t> part : parts) bytes += static_cast<double>(part.size());
  std::atomic<uint64_t> sink{0};
  for (int prefetch : kPrefetchDistances) {
    std::vector<double> rates;
    for (int pass = 0; pass < passes; ++pass) rates.push_back(bytes / read_all(pool, parts, prefetch, sink));
    std::nth_element(rates.begin(), rates.begin() + passes / 2, rates.end());
    best = std::max(best, rates[static_cast<size_t>(passes) / 2]);
  }
  return best;
}

double measure_read_bandwidth(int threads) {
  ThreadPool pool(std::max(threads, 1));
  PageBuffer data(size_t(256) << 20);
  std::memset(data.data(), 1, data.size());
  const std::span<const uint8_t> part(data.data(), data.size());
  return measure_read_bandwidth(pool, {&part, 1});
}

}  // namespace drafthorse
