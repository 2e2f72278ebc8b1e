#include "draft/draft_vocabulary.h"

#include <algorithm>

namespace drafthorse {
namespace {

constexpr int kFewest = 32768;  // fewer save little more
constexpr size_t kLatest = 256;
constexpr ptrdiff_t kStrays = 4;  // tokens past the bound that say nothing yet: those of a chat template
constexpr ptrdiff_t kShare = 20;  // beyond them, one in so many is worth the saving

}  // namespace

int draft_columns(std::span<const int32_t> tokens, int vocab) {
  const auto latest = tokens.last(std::min(tokens.size(), kLatest));
  const ptrdiff_t allowed = kStrays + static_cast<ptrdiff_t>(latest.size()) / kShare;
  for (int columns = kFewest; columns <= vocab / 2; columns *= 2) {
    if (std::count_if(latest.begin(), latest.end(), [&](int32_t token) { return token >= columns; }) <= allowed)
      return columns;
  }
  return 0;
}

}  // namespace drafthorse
