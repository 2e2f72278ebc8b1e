#include <algorithm>

#include "backend/backend.h"

namespace drafthorse {

int logit_columns(std::span<const BatchItem> batch, int vocab) {
  constexpr int kMultiple = 16;  // of outputs that kernels compute together
  int most = 0;
  for (const BatchItem& item : batch) {
    if (item.logits == LogitRows::none) continue;
    if (item.columns <= 0 || item.columns > vocab - kMultiple) return vocab;
    most = std::max(most, (item.columns + kMultiple - 1) / kMultiple * kMultiple);
  }
  return most > 0 ? most : vocab;
}

}  // namespace drafthorse
