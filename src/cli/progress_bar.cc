#include "cli/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

namespace drafthorse {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kPlainEvery = std::chrono::seconds(5);
constexpr double kPlainStep = 0.1;
constexpr int kWidth = 24;

}  // namespace

std::string human_bytes(uint64_t bytes) {
  double value = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (value < 999.5e3) return fmt::format("{:.0f} kB", value / 1e3);
  if (value < 99.95e6) return fmt::format("{:.1f} MB", value / 1e6);
  if (value < 999.5e6) return fmt::format("{:.0f} MB", value / 1e6);
  return fmt::format("{:.2f} GB", value / 1e9);
}

std::string human_seconds(double seconds) {
  long whole = std::lround(std::clamp(seconds, 0.0, 1e7));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

ProgressBar::ProgressBar(std::string label, bool terminal, uint64_t already)
    : label_(std::move(label)), terminal_(terminal), already_(already), began_(Clock::now()), drawn_(began_) {}

ProgressBar::~ProgressBar() {
  if (open_ && terminal_) std::fputc('\n', stderr);
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  done_ = done;
  total_ = total;
  double fraction = total ? static_cast<double>(done) / static_cast<double>(total) : 0;
  auto silent = Clock::now() - drawn_;
  if (terminal_ ? open_ && silent < kRedraw : silent < kPlainEvery && fraction < said_fraction_ + kPlainStep) return;
  draw(false);
}

void ProgressBar::finish() {
  draw(true);
  open_ = false;
}

void ProgressBar::clear() {
  if (open_ && terminal_) fmt::print(stderr, "\r\x1b[K");
  open_ = false;
}

void ProgressBar::draw(bool last) {
  double elapsed = std::chrono::duration<double>(Clock::now() - began_).count();
  double rate = elapsed > 0 && done_ > already_ ? static_cast<double>(done_ - already_) / elapsed : 0;
  double fraction = total_ ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 0;
  std::string rates = rate > 0 ? fmt::format("  {}/s", human_bytes(static_cast<uint64_t>(rate))) : "";
  if (last) {
    rates += fmt::format("  {}", human_seconds(elapsed));
  } else if (rate > 0 && total_ > done_) {
    rates += fmt::format("  {} left", human_seconds(static_cast<double>(total_ - done_) / rate));
  }
  std::string amount =
      total_ ? fmt::format("{:3.0f} %  {} of {}", std::floor(fraction * 100), human_bytes(done_), human_bytes(total_))
             : human_bytes(done_);
  if (terminal_) {
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < static_cast<int>(fraction * kWidth) ? "━" : "─";
    fmt::print(stderr, "\r\x1b[K{}  {}  {}{}{}", label_, bar, amount, rates, last ? "\n" : "");
  } else {
    fmt::print(stderr, "{}: {}{}\n", label_, amount, rates);
  }
  std::fflush(stderr);
  drawn_ = Clock::now();
  said_fraction_ = fraction;
  open_ = !last;
}

}  // namespace drafthorse
