#pragma once
// From one pre-token to token ids.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace drafthorse {

// Working memory of one encode() call, reused from piece to piece; each model casts it to its own.
class SubwordScratch {
 public:
  virtual ~SubwordScratch() = default;
};

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  // expected_bytes: the size of the text about to come, which bounds what is worth caching.
  virtual std::unique_ptr<SubwordScratch> make_scratch(size_t expected_bytes) const = 0;
  // piece: valid UTF-8, not empty. Appends its ids to `out`.
  virtual void encode(std::string_view piece, SubwordScratch& scratch, std::vector<int32_t>& out) const = 0;
};

}  // namespace drafthorse
