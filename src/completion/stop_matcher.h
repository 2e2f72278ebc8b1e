#pragma once
// Stop strings across token borders.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drafthorse {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Text that cannot be part of a stop string any more. After a match: nothing.
  std::string feed(std::string_view text) {
    if (matched_) return {};
    held_.append(text);
    size_t first = std::string::npos;
    for (const auto& stop : stops_)
      if (!stop.empty()) first = std::min(first, held_.find(stop));
    if (first != std::string::npos) {
      matched_ = true;
      held_.resize(first);
      return std::exchange(held_, {});
    }
    size_t keep = 0;
    for (const auto& stop : stops_)
      for (size_t n = std::min(held_.size(), stop.empty() ? 0 : stop.size() - 1); n > keep; --n)
        if (std::string_view(stop).starts_with(std::string_view(held_).substr(held_.size() - n))) keep = n;
    std::string out = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return out;
  }
  // What was held back, when no stop string came of it.
  std::string finish() { return std::exchange(held_, {}); }
  bool matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace drafthorse
