#pragma once
// Counters and histograms of the server in Prometheus' text format.

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/served_model.h"

namespace drafthorse {

// Buckets from 5 ms to 10 minutes; times of an answer spread over all of them.
class Histogram {
 public:
  static constexpr std::array<double, 15> kBounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                  2.5,   5,    10,    30,   60,  180,  600};
  void observe(double seconds);
  // The lines of one series; `labels` is `endpoint="chat"` or empty.
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::array<uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
};

class Metrics {
 public:
  void count_request(const std::string& endpoint, int status, double seconds);
  void count_answer(double first_token_seconds, double queue_seconds, uint64_t cached_tokens);
  // `model` may be null (loading); `connections` are the open ones.
  std::string text(const ServedModel* model, int connections) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;
  std::map<std::string, Histogram> seconds_;
  Histogram first_token_, queue_;
  uint64_t cached_tokens_ = 0;
};

}  // namespace drafthorse
