#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <string>

#include "text/unicode.h"

namespace drafthorse {
namespace {

constexpr size_t kMaxPattern = 64 * 1024;
constexpr uint32_t kMatchLimit = 10'000'000;  // steps of one search, far above what a pre-tokeniser's regex needs
constexpr uint32_t kHeapLimitKiB = 64 * 1024;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
};

// Constructs that both libraries accept and read differently; empty when there is none.
std::string differing_construct(std::string_view pattern) {
  int set_depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 'h' || escaped == 'H') return fmt::format("\\{}", escaped);
      // The braces of \p{L} are no quantifier.
      if (pattern.substr(i + 1).starts_with("{")) i = std::min(pattern.find('}', i), pattern.size() - 1);
    } else if (c == '[') {
      if (set_depth > 0 && !pattern.substr(i).starts_with("[:")) return "a set inside a set";
      ++set_depth;
    } else if (c == ']' && set_depth > 0) {
      --set_depth;
    } else if (set_depth > 0 && pattern.substr(i).starts_with("&&")) {
      return "&& inside a set";
    } else if (set_depth == 0 && pattern.substr(i).starts_with("}+")) {
      return "}+";
    } else if (set_depth == 0 && pattern.substr(i).starts_with("(?m")) {
      return "(?m";
    }
  }
  return {};
}

class PcreRegex : public Regex {
 public:
  explicit PcreRegex(pcre2_code* code) : code_(code), context_(pcre2_match_context_create(nullptr)) {
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter does the same, slower
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKiB);
  }

  void for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& on_match) const override {
    const std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    for (size_t at = 0; at <= text.size();) {
      if (search(text, at, data.get()) < 0) return;
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
      const size_t start = bounds[0], end = bounds[1];
      if (start < at || end < start) return;  // \K moved the start: such a match has no meaning here
      on_match(start, end);
      at = end;
      if (start == end) {  // after an empty match go on behind the next character
        if (end >= text.size()) return;
        at = end + decode_utf8(text, end).length;
      }
    }
  }

 private:
  int search(std::string_view text, size_t at, pcre2_match_data* data) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int rc = pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, data, context_.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
      rc = pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context_.get());
    return rc;
  }

  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_context, Free> context_;
};

}  // namespace

Result<std::shared_ptr<const Regex>> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    return Error{
        ErrorKind::unsupported, fmt::format("a regex of {} bytes; {} are the most", pattern.size(), kMaxPattern), {}};
  }
  if (const std::string construct = differing_construct(pattern); !construct.empty()) {
    return Error{ErrorKind::unsupported,
                 fmt::format("the regex \"{}\" uses {}, which this server does not support", pattern, construct),
                 {}};
  }
  const std::unique_ptr<pcre2_compile_context, Free> context(pcre2_compile_context_create(nullptr));
  pcre2_set_parens_nest_limit(context.get(), 100);
  int code = 0;
  PCRE2_SIZE offset = 0;
  // In Oniguruma's default dialect ^ and $ match at lines and classes follow Unicode.
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context.get());
  if (!compiled) {
    unsigned char message[256] = {};
    pcre2_get_error_message(code, message, sizeof message);
    return Error{ErrorKind::invalid_argument,
                 fmt::format("the regex \"{}\" does not compile: {} at byte {}", pattern,
                             reinterpret_cast<const char*>(message), offset),
                 {}};
  }
  return std::shared_ptr<const Regex>(std::make_shared<PcreRegex>(compiled));
}

}  // namespace drafthorse
