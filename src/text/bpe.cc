#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "text/flat_map.h"
#include "text/unicode.h"

namespace drafthorse {
namespace {

constexpr int32_t kNone = -1;
constexpr uint32_t kNoRank = ~0u;
constexpr uint32_t kEnd = ~0u;
// Up to here a scan for the lowest rank beats the heap.
constexpr size_t kScanLimit = 48;

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Words seen in this call and their ids; a slot holds the last word that hashed to it.
class WordCache {
 public:
  explicit WordCache(size_t expected_bytes) {
    if (expected_bytes >= 4096) slots_.resize(std::min<size_t>(std::bit_ceil(expected_bytes / 8), 16384));
  }
  bool find(std::string_view word, std::vector<int32_t>& out) const {
    if (slots_.empty() || word.size() > kMaxBytes) return false;
    const Slot& slot = slots_[hash(word) & (slots_.size() - 1)];
    if (slot.bytes != word.size() || std::memcmp(slot.text, word.data(), word.size()) != 0) return false;
    out.insert(out.end(), slot.ids, slot.ids + slot.count);
    return true;
  }
  void add(std::string_view word, std::span<const int32_t> ids) {
    if (slots_.empty() || word.size() > kMaxBytes || ids.size() > kMaxIds) return;
    Slot& slot = slots_[hash(word) & (slots_.size() - 1)];
    slot.bytes = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(ids.size());
    std::memcpy(slot.text, word.data(), word.size());
    std::copy(ids.begin(), ids.end(), slot.ids);
  }

 private:
  static constexpr size_t kMaxBytes = 30, kMaxIds = 8;
  struct Slot {
    uint8_t bytes = 0, count = 0;
    char text[kMaxBytes];
    int32_t ids[kMaxIds];
  };
  static uint64_t hash(std::string_view word) {
    uint64_t h = word.size();
    size_t at = 0;
    for (; at + 8 <= word.size(); at += 8) {
      uint64_t part;
      std::memcpy(&part, word.data() + at, 8);
      h = mix64(h ^ part);
    }
    uint64_t part = 0;
    std::memcpy(&part, word.data() + at, word.size() - at);
    return mix64(h ^ part);
  }
  std::vector<Slot> slots_;
};

struct Candidate {
  uint32_t rank, position;
  int32_t joined;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

struct Link {
  int32_t id;
  uint32_t previous, next;  // kEnd at the borders
};

struct Scratch : SubwordScratch {
  explicit Scratch(size_t expected_bytes) : cache(expected_bytes) {}
  WordCache cache;
  std::vector<int32_t> symbols;
  std::vector<uint32_t> ranks;
  std::vector<int32_t> joined;
  std::vector<Link> links;
  std::vector<Candidate> heap;
};

class Bpe : public SubwordModel {
 public:
  Bpe(const BpeVocabulary& vocabulary, const BpeOptions& options) : options_(options) {
    for (const auto& [text, id] : vocabulary.tokens) ids_.emplace(std::string(text), id);
    forbidden_.insert(vocabulary.forbidden.begin(), vocabulary.forbidden.end());
    for (int byte = 0; byte < 256; ++byte) {
      const char raw = static_cast<char>(byte);
      bytes_[byte] = options.byte_level ? find({&raw, 1}) : find(byte_token(static_cast<uint8_t>(byte)));
    }
  }

  Status add_merges(const BpeVocabulary& vocabulary) {
    merges_ = FlatMap(vocabulary.merges.size());
    const std::unordered_set<int32_t> byte_ids(bytes_.begin(), bytes_.end());
    std::string whole;
    for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
      const auto& [left, right] = vocabulary.merges[rank];
      if (left.empty() || right.empty()) {
        return Error{ErrorKind::corrupt, fmt::format("merge {} of the tokenizer has an empty part", rank), {}};
      }
      whole.assign(left).append(right);
      const int32_t left_id = find(left), right_id = find(right), id = find(whole);
      if (left_id == kNone || right_id == kNone || id == kNone) {
        return Error{ErrorKind::corrupt,
                     fmt::format("merge {} of the tokenizer: \"{}\" is not in its vocabulary", rank,
                                 left_id == kNone    ? std::string(left)
                                 : right_id == kNone ? std::string(right)
                                                     : whole),
                     {}};
      }
      if (!forbidden_.contains(id)) merges_.insert(pair_key(left_id, right_id), static_cast<uint64_t>(rank) << 32 | id);
      touches_bytes_ |= byte_ids.contains(left_id) || byte_ids.contains(right_id);
    }
    if (!options_.byte_level) find_borders(vocabulary);
    return {};
  }

  std::unique_ptr<SubwordScratch> make_scratch(size_t expected_bytes) const override {
    return std::make_unique<Scratch>(expected_bytes);
  }

  void encode(std::string_view piece, SubwordScratch& base, std::vector<int32_t>& out) const override {
    auto& scratch = static_cast<Scratch&>(base);
    const bool newlines = options_.whole_newline_runs && piece.find_first_not_of('\n') == std::string_view::npos;
    if (options_.ignore_merges || newlines) {
      const int32_t whole = find(piece);
      if (whole != kNone && !forbidden_.contains(whole)) return out.push_back(whole);
    }
    if (scratch.cache.find(piece, out)) return;
    const size_t before = out.size();
    if (options_.byte_level) {
      encode_bytes(piece, scratch, out);
    } else {
      encode_characters(piece, scratch, out);
    }
    scratch.cache.add(piece, std::span(out).subspan(before));
  }

 private:
  int32_t find(std::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? kNone : found->second;
  }
  bool all_bytes() const { return std::find(bytes_.begin(), bytes_.end(), kNone) == bytes_.end(); }

  // Two neighbouring characters that no token holds side by side are a border that no merge can cross: the text may be
  // cut there. Not with unknown tokens (they may fuse across), nor with merges of byte tokens, nor with ignore_merges.
  void find_borders(const BpeVocabulary& vocabulary) {
    cut_ = options_.byte_fallback && all_bytes() && !touches_bytes_ && !options_.ignore_merges;
    if (!cut_) return;
    for (const auto& [left, right] : vocabulary.merges) {
      uint32_t length = 0;
      size_t last = left.size() - 1;
      while (last > 0 && (static_cast<uint8_t>(left[last]) & 0xC0) == 0x80) --last;
      const char32_t a = decode_valid_utf8(left.data() + last, &length), b = decode_valid_utf8(right.data(), &length);
      neighbours_.insert(static_cast<uint64_t>(a) << 32 | b, 1);
    }
  }

  void encode_bytes(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
    scratch.symbols.clear();
    int32_t unknown = kNone;
    for (const char c : piece) add_symbol(bytes_[static_cast<uint8_t>(c)], scratch.symbols, unknown);
    if (unknown != kNone) scratch.symbols.push_back(unknown);
    merge(scratch, out);
  }

  // An unknown symbol waits in `unknown`, so that its neighbours can fuse with it.
  void add_symbol(int32_t id, std::vector<int32_t>& symbols, int32_t& unknown) const {
    if (id != kNone) {
      if (unknown != kNone) symbols.push_back(unknown);
      unknown = kNone;
      symbols.push_back(id);
    } else if (options_.unk) {
      if (unknown != kNone && !options_.fuse_unk) symbols.push_back(unknown);
      unknown = *options_.unk;
    }
  }

  void encode_characters(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
    scratch.symbols.clear();
    int32_t unknown = kNone;
    char32_t previous = 0;
    for (size_t at = 0; at < piece.size();) {
      uint32_t length = 0;
      const char32_t c = decode_valid_utf8(piece.data() + at, &length);
      if (cut_ && at > 0 && !neighbours_.find(static_cast<uint64_t>(previous) << 32 | c)) {
        merge(scratch, out);
        scratch.symbols.clear();
      }
      add_character(piece.substr(at, length), scratch.symbols, unknown);
      previous = c;
      at += length;
    }
    if (unknown != kNone) scratch.symbols.push_back(unknown);
    merge(scratch, out);
  }

  void add_character(std::string_view text, std::vector<int32_t>& symbols, int32_t& unknown) const {
    const int32_t id = find(text);
    if (id == kNone && options_.byte_fallback) {
      bool known = true;
      for (const char c : text) known &= bytes_[static_cast<uint8_t>(c)] != kNone;
      if (known) {
        for (const char c : text) symbols.push_back(bytes_[static_cast<uint8_t>(c)]);
        return;
      }
    }
    add_symbol(id, symbols, unknown);
  }

  // The merge of two neighbours; rank kNoRank when they do not join.
  Candidate candidate(int32_t left, int32_t right, uint32_t position) const {
    const uint64_t* found = merges_.find(pair_key(left, right));
    if (!found) return {kNoRank, position, kNone};
    return {static_cast<uint32_t>(*found >> 32), position, static_cast<int32_t>(*found & 0xFFFFFFFF)};
  }

  void merge(Scratch& scratch, std::vector<int32_t>& out) const {
    if (scratch.symbols.size() > kScanLimit) return merge_long(scratch, out);
    if (scratch.symbols.size() > 1) merge_short(scratch);
    out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
  }

  void merge_short(Scratch& s) const {
    size_t n = s.symbols.size();
    s.ranks.resize(n), s.joined.resize(n);
    const auto look = [&](size_t i) {
      const Candidate c = candidate(s.symbols[i], s.symbols[i + 1], 0);
      s.ranks[i] = c.rank, s.joined[i] = c.joined;
    };
    for (size_t i = 0; i + 1 < n; ++i) look(i);
    while (n > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; ++i)
        if (s.ranks[i] < s.ranks[best]) best = i;
      if (s.ranks[best] == kNoRank) break;
      s.symbols[best] = s.joined[best];
      for (size_t i = best + 1; i + 1 < n; ++i) {
        s.symbols[i] = s.symbols[i + 1], s.ranks[i] = s.ranks[i + 1], s.joined[i] = s.joined[i + 1];
      }
      --n;
      if (best > 0) look(best - 1);
      if (best + 1 < n) look(best);
    }
    s.symbols.resize(n);
  }

  void merge_long(Scratch& s, std::vector<int32_t>& out) const {
    const auto n = static_cast<uint32_t>(s.symbols.size());
    s.links.resize(n);
    s.heap.clear();
    const auto push = [&](uint32_t position) {
      const Candidate c = candidate(s.links[position].id, s.links[s.links[position].next].id, position);
      if (c.rank == kNoRank) return;
      s.heap.push_back(c);
      std::push_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    };
    for (uint32_t i = 0; i < n; ++i) s.links[i] = {s.symbols[i], i == 0 ? kEnd : i - 1, i + 1 == n ? kEnd : i + 1};
    for (uint32_t i = 0; i + 1 < n; ++i) push(i);
    while (!s.heap.empty()) {
      std::pop_heap(s.heap.begin(), s.heap.end(), std::greater<>());
      const Candidate top = s.heap.back();
      s.heap.pop_back();
      Link& left = s.links[top.position];
      if (left.id == kNone || left.next == kEnd) continue;
      // An entry may be out of date: only the pair that stands there now counts.
      if (candidate(left.id, s.links[left.next].id, 0).joined != top.joined) continue;
      Link& right = s.links[left.next];
      left.id = top.joined;
      right.id = kNone;
      left.next = right.next;
      if (left.next != kEnd) s.links[left.next].previous = top.position, push(top.position);
      if (left.previous != kEnd) push(left.previous);
    }
    for (uint32_t i = 0; i != kEnd; i = s.links[i].next) out.push_back(s.links[i].id);
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  BpeOptions options_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::unordered_set<int32_t> forbidden_;
  std::array<int32_t, 256> bytes_;
  FlatMap merges_;      // pair of ids -> rank << 32 | id of the joined token
  FlatMap neighbours_;  // pairs of characters that some token holds side by side
  bool touches_bytes_ = false, cut_ = false;
};

}  // namespace

Result<std::unique_ptr<const SubwordModel>> make_bpe(const BpeVocabulary& vocabulary, const BpeOptions& options) {
  auto model = std::make_unique<Bpe>(vocabulary, options);
  if (const Status status = model->add_merges(vocabulary); !status) return status.error();
  return std::unique_ptr<const SubwordModel>(std::move(model));
}

std::string byte_token(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<uint8_t> parse_byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  const int high = digit(token[3]), low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

}  // namespace drafthorse
