#pragma once
// Progress of something long: one line that redraws itself on a terminal, a plain line now and then elsewhere.

#include <chrono>
#include <cstdint>
#include <string>

namespace drafthorse {

class ProgressBar {
 public:
  // Writes to stderr. `already`: bytes that were there before and do not count for the rate.
  ProgressBar(std::string label, bool terminal, uint64_t already = 0);
  ~ProgressBar();                              // ends the line when finish() was not called
  void update(uint64_t done, uint64_t total);  // total 0: unknown
  void finish();                               // the last state, and a new line
  void clear();                                // takes the line away (terminal only)

 private:
  void draw(bool last);
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool terminal_;
  uint64_t already_, done_ = 0, total_ = 0;
  Clock::time_point began_, drawn_;
  double said_fraction_ = 0;
  bool open_ = false;
};

// "98.4 MB", "1.12 GB"
std::string human_bytes(uint64_t bytes);
// "8 s", "3 min 20 s", "2 h 05 min"
std::string human_seconds(double seconds);

}  // namespace drafthorse
