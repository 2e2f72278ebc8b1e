#include "text/tokenizer.h"
#include "text/unicode.h"

namespace drafthorse {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool keep_special)
    : tokenizer_(std::move(tokenizer)), keep_special_(keep_special) {}

std::string StreamDecoder::push(int32_t id) {
  if (!keep_special_ && tokenizer_->is_special(id)) return {};
  std::string_view bytes = tokenizer_->token_bytes(id);
  if (bytes.empty()) return {};
  if (first_ && tokenizer_->strips_leading_space() && bytes.front() == ' ') bytes.remove_prefix(1);
  first_ = false;
  pending_.append(bytes);
  // Bytes, not U+FFFD, say what is incomplete: a model may well write U+FFFD itself.
  const size_t certain = pending_.size() - incomplete_utf8_tail(pending_);
  std::string text =
      replace_invalid_utf8(std::string_view(pending_).substr(0, certain), tokenizer_->replaces_each_invalid_byte());
  pending_.erase(0, certain);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = replace_invalid_utf8(pending_, tokenizer_->replaces_each_invalid_byte());
  pending_.clear();
  return text;
}

}  // namespace drafthorse
