#pragma once
// A small pool for short parallel regions: workers spin briefly, then park; a region starts in microseconds and
// allocates nothing. One thread owns the pool and starts regions; regions do not nest.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace drafthorse {

// Items [0, count) dealt to workers as contiguous shares; a worker that is done takes chunks from the others' shares,
// so that a core taken away by another program costs its share and no more.
class WorkRange {
 public:
  explicit WorkRange(int max_workers);
  // Not thread-safe: call before the region (or between two barriers, by one worker).
  void reset(int64_t count, int64_t chunk, int workers);
  // The next chunk for `worker`, its own share first. False when nothing is left.
  bool next(int worker, int64_t& begin, int64_t& end);

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  std::unique_ptr<Share[]> shares_;
  int64_t chunk_ = 1;
  int workers_ = 1, max_workers_;
};

// All workers of a region wait for each other. Reusable. Spins, then yields the core.
class Barrier {
 public:
  void wait(int workers);

 private:
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
};

class ThreadPool {
 public:
  // `workers` counts the calling thread. `spin_microseconds`: how long an idle worker stays awake for the next region.
  explicit ThreadPool(int workers, int spin_microseconds = 100);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int workers() const { return workers_; }

  // Runs fn(worker, workers) once on every worker and returns when all are done. fn must not throw.
  template <class Function>
  void run(Function&& fn) {
    using F = std::remove_reference_t<Function>;
    region([](void* f, int worker, int workers) { (*static_cast<F*>(f))(worker, workers); },
           const_cast<void*>(static_cast<const void*>(&fn)), true);
  }

  // Runs fn(worker, begin, end) over chunks of at most `chunk` items that cover [0, count) once, in any order. A worker
  // that has not woken up by the time the others have done everything is not waited for.
  template <class Function>
  void parallel_for(int64_t count, int64_t chunk, Function&& fn) {
    if (count <= 0) return;
    if (workers_ == 1 || count <= chunk) {
      for (int64_t i = 0; i < count; i += chunk) fn(0, i, i + chunk < count ? i + chunk : count);
      return;
    }
    range_.reset(count, chunk, workers_);
    auto share = [&](int worker, int) {
      int64_t begin, end;
      while (range_.next(worker, begin, end)) fn(worker, begin, end);
    };
    using F = decltype(share);
    region([](void* f, int worker, int workers) { (*static_cast<F*>(f))(worker, workers); }, &share, false);
  }

  // For regions of several phases, inside run(): every worker calls it.
  void barrier() { barrier_.wait(workers_); }

 private:
  using Body = void (*)(void* context, int worker, int workers);
  void region(Body body, void* context, bool everyone);
  void worker_loop(int worker);
  uint64_t await_region(uint32_t seen);

  int workers_, spin_microseconds_;
  std::vector<std::thread> threads_;
  WorkRange range_;
  Barrier barrier_;
  Body body_ = nullptr;
  void* context_ = nullptr;
  // Generation of the region in the high half; then open bit, workers that joined, workers still inside.
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // the generation again, to park on
  alignas(64) std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace drafthorse
