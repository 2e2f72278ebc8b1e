#include "text/stop_strings.h"

#include <algorithm>

namespace drafthorse {

StopStrings::StopStrings(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    Stop stop{std::move(text), {}, 0};
    stop.borders.assign(stop.text.size() + 1, 0);
    for (size_t n = 1, border = 0; n < stop.text.size(); ++n) {
      while (border > 0 && stop.text[n] != stop.text[border]) border = stop.borders[border];
      if (stop.text[n] == stop.text[border]) ++border;
      stop.borders[n + 1] = border;
    }
    stops_.push_back(std::move(stop));
  }
}

void StopStrings::advance(Stop& stop, char byte) {
  if (stop.text.empty()) return;
  while (stop.matched > 0 && stop.text[stop.matched] != byte) stop.matched = stop.borders[stop.matched];
  if (stop.text[stop.matched] == byte) ++stop.matched;
}

std::string StopStrings::feed(std::string_view text) {
  if (hit_) return {};
  for (const char byte : text) {
    held_.push_back(byte);
    size_t longest = 0;
    for (size_t i = 0; i < stops_.size(); ++i) {
      Stop& stop = stops_[i];
      advance(stop, byte);
      if (stop.text.empty() || stop.matched < stop.text.size() || stop.matched <= longest) continue;
      longest = stop.matched;
      hit_ = i;
    }
    if (hit_) {
      held_.resize(held_.size() - longest);
      return std::move(held_);
    }
  }
  size_t open = 0;
  for (const Stop& stop : stops_) open = std::max(open, stop.matched);
  std::string certain = held_.substr(0, held_.size() - open);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopStrings::finish() {
  if (hit_) return {};
  std::string rest = std::move(held_);
  held_.clear();
  for (Stop& stop : stops_) stop.matched = 0;
  return rest;
}

}  // namespace drafthorse
