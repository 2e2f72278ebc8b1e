#pragma once
// Stop strings on text that comes in parts: they match across the borders of the parts.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drafthorse {

// The answer ends before the stop string that is complete first; of those complete at the same byte, before the
// longest. So the result does not depend on how the text is cut into parts.
class StopStrings {
 public:
  // Empty strings never match.
  explicit StopStrings(std::vector<std::string> stops);

  // The next part of the text. Returns the text that is certain to come before any stop string: all but the longest
  // suffix that may still become one. After a hit it returns nothing more.
  std::string feed(std::string_view text);
  // The end of the text: what was held back, unless a stop string was hit.
  std::string finish();
  // Index of the stop string that was hit.
  std::optional<size_t> hit() const { return hit_; }

 private:
  struct Stop {
    std::string text;
    std::vector<size_t> borders;  // borders[n]: longest proper prefix of text[0..n) that is also its suffix
    size_t matched = 0;           // how much of `text` the input ends with
  };
  static void advance(Stop& stop, char byte);

  std::vector<Stop> stops_;
  std::string held_;
  std::optional<size_t> hit_;
};

}  // namespace drafthorse
