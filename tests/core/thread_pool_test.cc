#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace drafthorse {
namespace {

TEST(ThreadPool, RunsEveryWorkerOnceInEveryRegion) {
  for (int workers : {1, 2, 3, 5}) {
    ThreadPool pool(workers, 20);
    ASSERT_EQ(pool.workers(), workers);
    std::vector<int> runs(workers);
    for (int region = 0; region < 300; region++) {
      pool.run([&](int worker, int count) {
        EXPECT_EQ(count, workers);
        runs[worker]++;
      });
    }
    for (int count : runs) EXPECT_EQ(count, 300);
  }
}

TEST(ThreadPool, ParallelForCoversEveryItemOnce) {
  ThreadPool pool(3, 20);
  for (int64_t count : {0, 1, 2, 7, 100, 1001}) {
    for (int64_t chunk : {1, 3, 64}) {
      std::vector<std::atomic<int>> seen(count);
      pool.parallel_for(count, chunk, [&](int worker, int64_t begin, int64_t end) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, 3);
        EXPECT_LE(end - begin, chunk);
        for (int64_t i = begin; i < end; i++) seen[i]++;
      });
      for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
    }
  }
}

TEST(ThreadPool, WakesParkedWorkers) {
  ThreadPool pool(2, 0);
  for (int region = 0; region < 50; region++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(region % 3));
    std::atomic<int> ran{0};
    pool.run([&](int, int) { ran++; });
    ASSERT_EQ(ran.load(), 2);
  }
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  ThreadPool pool(3, 20);
  std::vector<int> first(3), second(3);
  for (int region = 1; region <= 100; region++) {
    pool.run([&](int worker, int) {
      first[worker] = region;
      pool.barrier();
      second[worker] = std::accumulate(first.begin(), first.end(), 0);
      pool.barrier();
    });
    for (int sum : second) ASSERT_EQ(sum, 3 * region);
  }
}

// A worker that is held up keeps its one chunk; the others do all the rest.
TEST(ThreadPool, OthersTakeTheShareOfASlowWorker) {
  ThreadPool pool(2);
  std::atomic<int> by_slow{0}, done{0};
  std::atomic<bool> others_finished{false};
  pool.parallel_for(100, 1, [&](int worker, int64_t, int64_t) {
    if (worker == 1) {
      by_slow++;
      while (!others_finished) std::this_thread::yield();
    }
    if (++done >= 99) others_finished = true;
    if (worker == 0 && by_slow == 0) std::this_thread::sleep_for(std::chrono::microseconds(10));
  });
  EXPECT_EQ(done.load(), 100);
  EXPECT_LE(by_slow.load(), 2);
}

TEST(WorkRange, DealsSharesThenSteals) {
  WorkRange range(2);
  range.reset(10, 2, 2);
  std::vector<int> taken(10);
  int64_t begin, end, chunks = 0;
  while (range.next(1, begin, end)) {
    if (chunks++ == 0) {
      EXPECT_EQ(begin, 5);  // its own share first
    }
    for (int64_t i = begin; i < end; i++) taken[i]++;
  }
  for (int times : taken) EXPECT_EQ(times, 1);
  EXPECT_FALSE(range.next(0, begin, end));
}

}  // namespace
}  // namespace drafthorse
