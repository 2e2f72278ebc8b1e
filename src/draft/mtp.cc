#include "draft/mtp.h"

#include <stdexcept>

#include "draft/draft_vocabulary.h"

namespace drafthorse {

void MtpHistory::extend(int first, std::span<const float> hidden) {
  const auto width = static_cast<size_t>(head_->hidden());
  if (first < length()) throw std::logic_error("MtpHistory: positions told twice");
  pending_.resize(pending_.size() + static_cast<size_t>(first - length()) * width, 0.0f);
  pending_.insert(pending_.end(), hidden.begin(), hidden.end());
}

void MtpHistory::truncate(int length) {
  if (length > this->length()) return;
  // The last entry was paired with a token that may not follow any more.
  const int entries = std::max(0, std::min(state_->length(), length - 1));
  const bool lost = state_->length() > entries;
  if (lost) state_->truncate(entries);
  const auto width = static_cast<size_t>(head_->hidden());
  if (lost) pending_.clear();
  else pending_.resize(static_cast<size_t>(length - entries) * width);
}

namespace {

// One call of the head; rows and joined vectors of every item that takes part.
struct HeadCall {
  std::vector<size_t> items;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::span<const float>> joined;
  std::vector<LogitRows> logits;
};

}  // namespace

void draft_with_head(Model& head, std::span<MtpItem> items, const MtpPick& pick) {
  const auto width = static_cast<size_t>(head.hidden());
  std::vector<int> origin(items.size());
  std::vector<std::vector<float>> chained(items.size());  // the head's own hidden vector of its last row
  HeadCall call;

  // Runs the call; the last row of every item that wants logits gives a token and the vector to chain on.
  const auto run = [&] {
    std::vector<BatchItem> batch;
    for (size_t c = 0; c < call.items.size(); ++c) {
      BatchItem item{items[call.items[c]].history->state_.get(), call.tokens[c], call.logits[c]};
      item.joined = call.joined[c];
      item.hidden = call.logits[c] == LogitRows::none ? Hidden::none : Hidden::after_norm;
      item.hidden_last = true;
      item.columns = draft_columns(items[call.items[c]].tokens, head.vocab());
      batch.push_back(item);
    }
    if (batch.empty()) return;
    const RunOutput out = head.run(batch);
    const auto columns = static_cast<size_t>(out.columns);
    size_t row = 0;
    for (size_t c = 0; c < call.items.size(); ++c) {
      if (call.logits[c] == LogitRows::none) continue;
      MtpItem& item = items[call.items[c]];
      const auto last = out.hidden.subspan(row * width, width);
      chained[call.items[c]].assign(last.begin(), last.end());
      const size_t index = item.tokens.size() + item.draft.size();
      const MtpChoice choice = pick(call.items[c], out.logits.subspan(row++ * columns, columns), index);
      item.draft.push_back(choice.token);
      if (!choice.more) item.depth = static_cast<int>(item.draft.size());
    }
  };

  for (size_t i = 0; i < items.size(); ++i) {
    MtpItem& item = items[i];
    MtpHistory& history = *item.history;
    item.draft.clear();
    // Without a draft the last position stays pending: its row is the one that gives the next draft.
    const int rows = history.pending_rows() - (item.depth > 0 ? 0 : 1);
    if (rows <= 0) continue;
    if (!head.reserve(*history.state_, rows + item.depth)) {
      item.failed = true;
      continue;
    }
    const auto first = item.tokens.begin() + history.state_->length() + 1;
    call.items.push_back(i);
    call.tokens.emplace_back(first, first + rows);
    call.joined.push_back(std::span(history.pending_).first(static_cast<size_t>(rows) * width));
    call.logits.push_back(item.depth > 0 ? LogitRows::last : LogitRows::none);
  }
  run();
  for (size_t c = 0; c < call.items.size(); ++c) {
    MtpHistory& history = *items[call.items[c]].history;
    const auto entered = static_cast<ptrdiff_t>(call.joined[c].size());
    origin[call.items[c]] = history.state_->length();
    history.pending_.erase(history.pending_.begin(), history.pending_.begin() + entered);
  }

  for (int depth = 2; depth <= kMostMtpDepth; ++depth) {
    call = {};
    for (size_t i = 0; i < items.size(); ++i) {
      MtpItem& item = items[i];
      if (item.draft.empty() || item.depth < depth) continue;
      call.items.push_back(i);
      call.tokens.push_back({item.draft.back()});
      call.joined.push_back(chained[i]);
      call.logits.push_back(LogitRows::last);
    }
    if (call.items.empty()) break;
    run();
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].draft.size() > 1) items[i].history->state_->truncate(origin[i]);
  }
}

}  // namespace drafthorse
