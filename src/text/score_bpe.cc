#include "text/score_bpe.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "text/flat_map.h"
#include "text/unicode.h"

namespace drafthorse {
namespace {

constexpr uint32_t kEnd = ~0u;

struct Symbol {
  uint32_t start, length;   // bytes of the piece; length 0: joined to the one before it
  uint32_t previous, next;  // kEnd at the borders
};

struct Candidate {
  double score;
  uint32_t left, length;  // length of both together, to see whether they still stand there
  uint32_t right;
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

struct Scratch : SubwordScratch {
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::unordered_map<std::string_view, uint32_t> parts;  // joined unused token -> bytes of its left part
};

class ScoreBpe : public SubwordModel {
 public:
  ScoreBpe(std::vector<ScoredToken> tokens, std::vector<int32_t> bytes, int32_t unk)
      : tokens_(std::move(tokens)), bytes_(std::move(bytes)), unk_(unk) {
    for (uint32_t i = 0; i < tokens_.size(); ++i) {
      const std::string& text = tokens_[i].text;
      index_.emplace(text, i);
      longest_ = std::max(longest_, text.size());
      add_neighbours(text);
    }
  }

  std::unique_ptr<SubwordScratch> make_scratch(size_t) const override { return std::make_unique<Scratch>(); }

  // Two characters that no token holds side by side can never join, so the piece is cut there.
  void encode(std::string_view piece, SubwordScratch& scratch, std::vector<int32_t>& out) const override {
    size_t start = 0;
    char32_t previous = 0;
    for (size_t at = 0; at < piece.size();) {
      uint32_t length = 0;
      const char32_t c = decode_valid_utf8(piece.data() + at, &length);
      if (at > start && !neighbours_.find(static_cast<uint64_t>(previous) << 32 | c)) {
        encode_segment(piece.substr(start, at - start), static_cast<Scratch&>(scratch), out);
        start = at;
      }
      previous = c;
      at += length;
    }
    if (start < piece.size()) encode_segment(piece.substr(start), static_cast<Scratch&>(scratch), out);
  }

 private:
  void add_neighbours(std::string_view text) {
    char32_t previous = 0;
    for (size_t at = 0; at < text.size();) {
      const DecodedChar c = decode_utf8(text, at);
      if (at > 0) neighbours_.insert(static_cast<uint64_t>(previous) << 32 | c.code_point, 1);
      previous = c.code_point;
      at += c.length;
    }
  }

  const ScoredToken* find(std::string_view text) const {
    if (text.size() > longest_) return nullptr;
    const auto found = index_.find(text);
    return found == index_.end() ? nullptr : &tokens_[found->second];
  }

  void push(std::string_view text, uint32_t left, Scratch& s) const {
    const uint32_t right = left == kEnd ? kEnd : s.symbols[left].next;
    if (right == kEnd) return;
    const uint32_t length = s.symbols[left].length + s.symbols[right].length;
    const std::string_view whole = text.substr(s.symbols[left].start, length);
    const ScoredToken* token = find(whole);
    if (!token) return;
    s.heap.push_back({token->score, left, length, right});
    std::push_heap(s.heap.begin(), s.heap.end());
    if (token->unused) s.parts[whole] = s.symbols[left].length;
  }

  void encode_segment(std::string_view text, Scratch& s, std::vector<int32_t>& out) const {
    s.symbols.clear(), s.heap.clear(), s.parts.clear();
    for (uint32_t at = 0, length = 0; at < text.size(); at += length) {
      decode_valid_utf8(text.data() + at, &length);
      const auto index = static_cast<uint32_t>(s.symbols.size());
      s.symbols.push_back({at, length, index == 0 ? kEnd : index - 1, at + length == text.size() ? kEnd : index + 1});
    }
    for (uint32_t i = 0; i < s.symbols.size(); ++i) push(text, i, s);
    while (!s.heap.empty()) {
      std::pop_heap(s.heap.begin(), s.heap.end());
      const Candidate top = s.heap.back();
      s.heap.pop_back();
      join(text, top, s);
    }
    for (uint32_t i = 0; i != kEnd; i = s.symbols[i].next)
      emit(text.substr(s.symbols[i].start, s.symbols[i].length), s, out);
  }

  void join(std::string_view text, const Candidate& top, Scratch& s) const {
    Symbol& left = s.symbols[top.left];
    Symbol& right = s.symbols[top.right];
    if (left.length == 0 || right.length == 0 || left.length + right.length != top.length) return;
    left.length = top.length;
    left.next = right.next;
    right.length = 0;
    if (left.next != kEnd) s.symbols[left.next].previous = top.left;
    push(text, left.previous, s);
    push(text, top.left, s);
  }

  void emit(std::string_view text, const Scratch& s, std::vector<int32_t>& out) const {
    const ScoredToken* token = find(text);
    if (token && !token->unused) return out.push_back(token->id);
    if (token) {
      if (const auto parts = s.parts.find(text); parts != s.parts.end()) {
        emit(text.substr(0, parts->second), s, out);
        return emit(text.substr(parts->second), s, out);
      }
      return out.push_back(token->id);
    }
    for (const char c : text) {
      const int32_t id = bytes_[static_cast<uint8_t>(c)];
      if (id < 0) {
        if (unk_ >= 0) out.push_back(unk_);
        return;
      }
    }
    for (const char c : text) out.push_back(bytes_[static_cast<uint8_t>(c)]);
  }

  std::vector<ScoredToken> tokens_;
  std::vector<int32_t> bytes_;
  int32_t unk_;
  std::unordered_map<std::string_view, uint32_t> index_;  // views of tokens_
  FlatMap neighbours_;
  size_t longest_ = 0;
};

}  // namespace

std::unique_ptr<const SubwordModel> make_score_bpe(std::vector<ScoredToken> tokens, std::vector<int32_t> bytes,
                                                   int32_t unk) {
  return std::make_unique<ScoreBpe>(std::move(tokens), std::move(bytes), unk);
}

}  // namespace drafthorse
