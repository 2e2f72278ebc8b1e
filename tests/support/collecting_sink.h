#pragma once
// A TokenSink that keeps what it was told, for tests to wait on.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"

namespace drafthorse::test {

class CollectingSink final : public TokenSink {
 public:
  bool on_tokens(std::span<const TokenEvent> events) override {
    std::unique_lock lock(mutex_);
    for (const auto& e : events) {
      tokens_.push_back(e.token);
      events_.push_back(e);
    }
    changed_.notify_all();
    lock.unlock();
    return !on_each || on_each(events);
  }

  void on_finish(FinishReason reason, const RequestStats& stats, const Error* error) override {
    std::lock_guard lock(mutex_);
    ++finishes_;
    reason_ = reason;
    stats_ = stats;
    if (error) error_ = *error;
    changed_.notify_all();
  }

  // Waits for the end; the tokens.
  std::vector<int32_t> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finishes_ > 0; });
    return tokens_;
  }
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finishes_ > 0 || tokens_.size() >= count; });
  }
  bool finished() {
    std::lock_guard lock(mutex_);
    return finishes_ > 0;
  }
  int finishes() {
    std::lock_guard lock(mutex_);
    return finishes_;
  }
  FinishReason reason() {
    std::lock_guard lock(mutex_);
    return *reason_;
  }
  RequestStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  std::optional<Error> error() {
    std::lock_guard lock(mutex_);
    return error_;
  }
  std::vector<TokenEvent> events() {
    std::lock_guard lock(mutex_);
    return events_;
  }

  std::function<bool(std::span<const TokenEvent>)> on_each;  // set before submit

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> tokens_;
  std::vector<TokenEvent> events_;
  int finishes_ = 0;
  std::optional<FinishReason> reason_;
  RequestStats stats_;
  std::optional<Error> error_;
};

}  // namespace drafthorse::test
