#pragma once
// The state of one sequence in the reference backend.

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "backend/reference/delta_net.h"

namespace drafthorse::reference {

class ReferenceState final : public State {
 public:
  // One of these is in use for each block, by the kind of its mixer.
  struct Layer {
    Cache cache;
    DeltaHistory history;
  };

  // The network must outlive the state.
  explicit ReferenceState(const Network& network) : layers(network.blocks.size()), network_(network) { clear(); }

  int length() const override { return length_; }
  int earliest() const override { return std::max(recurrent_ ? committed_ : 0, 1); }
  void truncate(int length) override {
    if (length < 0 || length > length_) throw std::logic_error("truncate beyond the state's length");
    if (length == 0) return clear();
    if (length < earliest()) throw std::logic_error("truncate to a position that the recurrent state has passed");
    for (Layer& layer : layers) {
      layer.cache.keys.resize(std::min(layer.cache.keys.size(), size_t(length)));
      layer.cache.values.resize(std::min(layer.cache.values.size(), size_t(length)));
      if (!layer.history.empty()) layer.history.resize(size_t(length) - size_t(committed_) + 1);
    }
    length_ = length;
  }

  // Every layer has seen n more rows, of which the last `tentative` may be taken back.
  void extended(int n, int tentative) {
    length_ += n;
    committed_ = length_ - tentative;
    touched_ = false;
  }
  // A run is about to change recurrent state; until `extended` there is no way back.
  void touch() { touched_ = true; }
  // A run has ended before all layers had seen its rows.
  void abandon() { touched_ ? clear() : truncate(length_); }

  std::vector<Layer> layers;  // [blocks]

 private:
  void clear() {
    length_ = committed_ = 0;
    touched_ = false;
    for (size_t b = 0; b < layers.size(); ++b) {
      layers[b] = {};
      const auto* delta = std::get_if<DeltaNet>(&network_.blocks[b].mixer);
      if (delta) layers[b].history = {empty_state(*delta)};
      recurrent_ = recurrent_ || delta;
    }
  }

  const Network& network_;
  int length_ = 0;
  int committed_ = 0;  // rows in history[0]
  bool recurrent_ = false, touched_ = false;
};

}  // namespace drafthorse::reference
