#include "core/thread_pool.h"

#include <algorithm>
#include <chrono>

namespace drafthorse {
namespace {

constexpr uint64_t kOpen = 1ull << 31;
constexpr uint64_t kJoined = 1ull << 16;
constexpr uint64_t kInside = 1;

uint32_t generation(uint64_t state) { return static_cast<uint32_t>(state >> 32); }
bool open(uint64_t state) { return state & kOpen; }
int joined(uint64_t state) { return static_cast<int>((state >> 16) & 0x7fff); }
int inside(uint64_t state) { return static_cast<int>(state & 0xffff); }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done(); gives the core away when it takes long, since then some worker has lost its own.
template <class Done>
void spin_until(Done done) {
  for (int spins = 0; !done(); spins++) {
    if (spins < 4096) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

WorkRange::WorkRange(int max_workers) : shares_(new Share[max_workers]), max_workers_(max_workers) {}

void WorkRange::reset(int64_t count, int64_t chunk, int workers) {
  chunk_ = std::max<int64_t>(chunk, 1);
  workers_ = std::min(workers, max_workers_);
  for (int w = 0; w < workers_; w++) {
    shares_[w].next.store(count * w / workers_, std::memory_order_relaxed);
    shares_[w].end = count * (w + 1) / workers_;
  }
}

bool WorkRange::next(int worker, int64_t& begin, int64_t& end) {
  for (int i = 0; i < workers_; i++) {
    int w = worker + i;
    Share& share = shares_[w >= workers_ ? w - workers_ : w];
    // The look before the add keeps the counter from running away while many workers find the share empty.
    if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
    begin = share.next.fetch_add(chunk_, std::memory_order_relaxed);
    if (begin >= share.end) continue;
    end = std::min(begin + chunk_, share.end);
    return true;
  }
  return false;
}

void Barrier::wait(int workers) {
  uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == workers - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  spin_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
}

ThreadPool::ThreadPool(int workers, int spin_microseconds)
    : workers_(std::clamp(workers, 1, 0x7fff)), spin_microseconds_(spin_microseconds), range_(workers_) {
  for (int w = 1; w < workers_; w++) threads_.emplace_back([this, w] { worker_loop(w); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::region(Body body, void* context, bool everyone) {
  if (workers_ == 1) {
    body(context, 0, 1);
    return;
  }
  body_ = body;
  context_ = context;
  uint32_t next = generation(state_.load(std::memory_order_relaxed)) + 1;
  state_.store(static_cast<uint64_t>(next) << 32 | kOpen, std::memory_order_seq_cst);
  epoch_.store(next, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();
  body(context, 0, workers_);
  // Close the region once nobody is inside: whoever comes later finds it closed.
  spin_until([&] {
    uint64_t state = state_.load(std::memory_order_acquire);
    if (inside(state) != 0 || (everyone && joined(state) != workers_ - 1)) return false;
    return state_.compare_exchange_strong(state, state & ~kOpen, std::memory_order_acq_rel);
  });
}

// Waits for a region newer than `seen`; returns the state seen, or 0 to stop.
uint64_t ThreadPool::await_region(uint32_t seen) {
  using Clock = std::chrono::steady_clock;
  auto until = Clock::now() + std::chrono::microseconds(spin_microseconds_);
  for (int spins = 0;; spins++) {
    uint64_t state = state_.load(std::memory_order_acquire);
    if (generation(state) != seen) return state;
    if (stop_.load(std::memory_order_relaxed)) return 0;
    pause();
    if (spins % 32 == 31 && Clock::now() >= until) break;
  }
  for (;;) {
    parked_.fetch_add(1, std::memory_order_seq_cst);
    if (!stop_.load(std::memory_order_seq_cst)) epoch_.wait(seen, std::memory_order_seq_cst);
    parked_.fetch_sub(1, std::memory_order_relaxed);
    if (stop_.load(std::memory_order_seq_cst)) return 0;
    uint64_t state = state_.load(std::memory_order_acquire);
    if (generation(state) != seen) return state;
  }
}

void ThreadPool::worker_loop(int worker) {
  uint32_t seen = 0;
  for (;;) {
    uint64_t state = await_region(seen);
    if (state == 0) return;
    // Join unless the region has closed meanwhile; a newer one may have opened.
    for (;;) {
      seen = generation(state);
      if (!open(state)) break;
      if (state_.compare_exchange_weak(state, state + kJoined + kInside, std::memory_order_acq_rel)) {
        body_(context_, worker, workers_);
        state_.fetch_sub(kInside, std::memory_order_release);
        break;
      }
    }
  }
}

}  // namespace drafthorse
