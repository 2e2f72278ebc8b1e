#pragma once
// A few threads that take tasks in order.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace drafthorse {

class WorkQueue {
 public:
  // With no threads tasks run inside post().
  explicit WorkQueue(int threads);
  ~WorkQueue();  // runs what is queued, then joins
  void post(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace drafthorse
