// Python's str methods.
#include <algorithm>

#include <utf8proc.h>

#include "text/jinja_library.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

constexpr size_t npos = std::string_view::npos;

// A result that is safe when the string was.
Value like(Renderer& r, const Value& self, std::string text) {
  return r.heap().string(std::move(text), self.as<StringObject>().markup);
}

template <std::string (*convert)(std::string_view)>
Value converted(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("the method", a, {}, 0);
  r.heap().check(self.text().size() * 3);
  r.heap().spend_on(self.text().size(), 4);
  return like(r, self, convert(self.text()));
}

template <bool left, bool right>
Value stripped(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("strip", a, {"chars"}, 0);
  std::optional<std::string_view> characters;
  if (b.has_value(0)) characters = b.string(0);
  if (characters) r.heap().spend(static_cast<int64_t>(self.text().size() / 32 * (1 + characters->size() / 32)));
  return like(r, self, std::string(strip(self.text(), characters, left, right)));
}

// Where a search for bounds [start, stop) of code points looks, in bytes; begin > end when start is after the string.
struct Window {
  size_t begin, end;
};

Window window_of(const Value& self, const Bound& b, size_t first) {
  const std::string_view text = self.text();
  self.object()->heap->spend_on(text.size());
  if (!b.has_value(first) && !b.has_value(first + 1)) return {0, text.size()};
  const int64_t n = self.as<StringObject>().length();
  const auto clip = [n](int64_t i) { return std::max<int64_t>(i < 0 ? i + n : i, 0); };
  const int64_t start = clip(b.has_value(first) ? b.integer(first, 0) : 0);
  const int64_t stop = std::min(clip(b.has_value(first + 1) ? b.integer(first + 1, n) : n), n);
  if (start > stop) return {1, 0};
  return {byte_offset(text, start), byte_offset(text, stop)};
}

// Byte position of the first or last match, or npos.
size_t search(Renderer& r, const Value& self, const Bound& b, bool last) {
  const std::string_view needle = b.string(0);
  const auto [begin, end] = window_of(self, b, 1);
  if (begin > end) return npos;
  const std::string_view text = self.text().substr(0, end);
  r.heap().spend(static_cast<int64_t>(text.size() / 32));
  if (!last) return find_text(text, needle, begin);
  r.heap().spend(static_cast<int64_t>(text.size() / 32 * (1 + needle.size() / 32)));
  const size_t found = text.rfind(needle);
  return found == npos || found < begin ? npos : found;
}

template <bool last, bool required>
Value find(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("find", a, {"sub", "start", "end"}, 1);
  const size_t found = search(r, self, b, last);
  if (found == npos && required) fail("substring not found");
  return Value::integer(found == npos ? Int{-1} : Int{count_code_points(self.text().substr(0, found))});
}

Value count(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("count", a, {"sub", "start", "end"}, 1);
  const std::string_view needle = b.string(0);
  const auto [begin, end] = window_of(self, b, 1);
  if (begin > end) return Value::integer(0);
  const std::string_view text = self.text().substr(begin, end - begin);
  r.heap().spend(static_cast<int64_t>(text.size() / 32));
  if (needle.empty()) return Value::integer(count_code_points(text) + 1);
  Int n = 0;
  for (size_t at = 0; (at = find_text(text, needle, at)) != npos; at += needle.size()) ++n, r.heap().spend(1);
  return Value::integer(n);
}

template <bool at_start>
Value matches_end(Renderer& r, const Value& self, Arguments& a) {
  const char* name = at_start ? "startswith" : "endswith";
  const Bound b(name, a, {"prefix", "start", "end"}, 1);
  const auto [begin, end] = window_of(self, b, 1);
  if (begin > end) return Value::boolean(false);
  const std::string_view text = self.text().substr(begin, end - begin);
  const auto matches = [&](const Value& affix) {
    if (affix.is_undefined()) fail_undefined(affix);
    if (!affix.is_string())
      fail(std::string(name) + " first arg must be str or a tuple of str, not " + type_name(affix));
    return at_start ? text.starts_with(affix.text()) : text.ends_with(affix.text());
  };
  if (!b[0].is(Kind::tuple)) return Value::boolean(matches(b[0]));
  for (const Value& affix : b[0].as<ListObject>().items) {
    r.heap().spend(1);
    if (matches(affix)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

// Pieces between white space, at most `limit` cuts (negative: no limit), from the left or the right.
std::vector<std::string_view> split_space(Renderer& r, std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string_view> out;
  text = strip(text, {}, !from_right, from_right);  // the other end stays with the last piece
  r.heap().spend_on(text.size(), 8);
  while (!text.empty()) {
    if (out.size() % 1024 == 1023) r.heap().check(out.size() * 200);
    if (limit >= 0 && static_cast<int64_t>(out.size()) == limit) {
      out.push_back(text);
      break;
    }
    if (from_right) {
      size_t begin = 0;
      for (size_t at = 0; at < text.size();)
        if (is_space(decode(text, at))) begin = at;
      out.push_back(text.substr(begin));
      text = strip(text.substr(0, begin), {}, false, true);
    } else {
      size_t end = 0;
      for (size_t at = 0; at < text.size() && !is_space(decode(text, at));) end = at;
      out.push_back(text.substr(0, end));
      text = strip(text.substr(end), {}, true, false);
    }
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_at(Renderer& r, std::string_view text, std::string_view separator, int64_t limit,
                                       bool from_right) {
  if (separator.empty()) fail("empty separator");
  r.heap().spend_on(text.size() * (from_right ? 1 + separator.size() / 32 : 1));
  std::vector<size_t> cuts;
  for (size_t at = 0; (at = find_text(text, separator, at)) != npos; at += separator.size()) {
    r.heap().spend(1);
    if (cuts.size() % 1024 == 1023) r.heap().check(cuts.size() * 200);  // what the pieces will need
    cuts.push_back(at);
    if (!from_right && limit >= 0 && static_cast<int64_t>(cuts.size()) > limit) break;
  }
  if (from_right) {  // matches are counted from the end, which differs where they could overlap
    cuts.clear();
    for (size_t end = text.size(); end >= separator.size();) {
      r.heap().spend(1);
      const size_t at = text.substr(0, end).rfind(separator);
      if (at == npos || (limit >= 0 && static_cast<int64_t>(cuts.size()) == limit)) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  } else if (limit >= 0 && static_cast<int64_t>(cuts.size()) > limit) {
    cuts.resize(static_cast<size_t>(limit));
  }
  std::vector<std::string_view> out;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    out.push_back(text.substr(begin, cut - begin));
    begin = cut + separator.size();
  }
  out.push_back(text.substr(begin));
  return out;
}

Value pieces(Renderer& r, const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> out;
  for (const std::string_view part : parts) out.push_back(like(r, self, std::string(part)));
  return r.heap().list(std::move(out));
}

template <bool from_right>
Value split(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("split", a, {"sep", "maxsplit"}, 0);
  const int64_t limit = b.integer(1, -1);
  if (b.has_value(0)) return pieces(r, self, split_at(r, self.text(), b.string(0), limit, from_right));
  // Every cut from the right scans what is left.
  if (from_right)
    r.heap().spend(static_cast<int64_t>(self.text().size() / 8 * (limit < 0 ? 1 : static_cast<size_t>(limit) + 1)));
  if (from_right && limit < 0) return pieces(r, self, split_space(r, self.text(), -1, false));
  return pieces(r, self, split_space(r, self.text(), limit, from_right));
}

bool line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

Value splitlines(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("splitlines", a, {"keepends"}, 0);
  const std::string_view text = self.text();
  const bool keep = b.flag(0, false);
  std::vector<std::string_view> lines;
  r.heap().spend_on(text.size(), 8);
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = decode(text, at);
    if (!line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    if (lines.size() % 1024 == 1023) r.heap().check(lines.size() * 200);
    lines.push_back(text.substr(begin, (keep ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return pieces(r, self, lines);
}

Value join(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("join", a, {"iterable"}, 1);
  const bool markup = self.as<StringObject>().markup;
  Buffer out(r.heap());
  Iterator items(r.heap(), b[0]);
  int64_t n = 0;
  for (Value item; items.next(item); ++n) {
    if (n) out.append(self.text());
    if (!item.is_string() && !markup)
      fail("sequence item " + std::to_string(n) + ": expected str instance, " + type_name(item) + " found");
    const bool safe = item.is_string() && item.as<StringObject>().markup;
    const std::string text = r.text(item);
    out.append(markup && !safe ? escape_html(text) : text);
  }
  return like(r, self, out.take());
}

Value replace(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("replace", a, {"old", "new", "count"}, 2);
  const bool markup = self.as<StringObject>().markup;
  const auto argument = [&](size_t i) {
    return markup && !b[i].as<StringObject>().markup ? escape_html(b.string(i)) : std::string(b.string(i));
  };
  b.string(0), b.string(1);
  return like(r, self, replaced(r, self.text(), argument(0), argument(1), b.integer(2, -1)));
}

template <bool from_right>
Value partition(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("partition", a, {"sep"}, 1);
  const std::string_view text = self.text(), separator = b.string(0);
  if (separator.empty()) fail("empty separator");
  r.heap().spend(static_cast<int64_t>(text.size() / 32 * (1 + separator.size() / 32)));
  const size_t at = from_right ? text.rfind(separator) : find_text(text, separator);
  const auto part = [&](std::string_view t) { return like(r, self, std::string(t)); };
  if (at == npos)
    return from_right ? r.heap().tuple({part(""), part(""), self}) : r.heap().tuple({self, part(""), part("")});
  return r.heap().tuple({part(text.substr(0, at)), part(separator), part(text.substr(at + separator.size()))});
}

template <bool prefix>
Value without(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("removeprefix", a, {"affix"}, 1);
  std::string_view text = self.text();
  const std::string_view affix = b.string(0);
  if (prefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  else if (!prefix && text.ends_with(affix)) text.remove_suffix(affix.size());
  return like(r, self, std::string(text));
}

std::string padding(Renderer& r, int64_t n, std::string_view fill) {
  std::string out;
  r.heap().check(static_cast<size_t>(n) * fill.size());
  r.heap().spend(n / 32);
  for (int64_t i = 0; i < n; ++i) out += fill;
  return out;
}

template <int side>  // -1 ljust, 0 center, 1 rjust
Value justified(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("justify", a, {"width", "fillchar"}, 1);
  const std::string_view fill = b.string(1, " ");
  if (count_code_points(fill) != 1) fail("The fill character must be exactly one character long");
  const int64_t width = b.integer(0, 0), n = self.as<StringObject>().length(), extra = std::max<int64_t>(width - n, 0);
  const int64_t left = side < 0 ? 0 : side > 0 ? extra : extra / 2 + (extra & width & 1);
  return like(r, self, padding(r, left, fill) + std::string(self.text()) + padding(r, extra - left, fill));
}

Value zfill(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("zfill", a, {"width"}, 1);
  std::string_view text = self.text();
  const int64_t extra = std::max<int64_t>(b.integer(0, 0) - self.as<StringObject>().length(), 0);
  const bool sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  std::string out(text.substr(0, sign));
  text.remove_prefix(sign);
  return like(r, self, (out += padding(r, extra, "0")) += text);
}

Value expandtabs(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("expandtabs", a, {"tabsize"}, 0);
  const int64_t size = b.integer(0, 8);
  Buffer out(r.heap());
  int64_t column = 0;
  const std::string_view text = self.text();
  r.heap().spend_on(text.size(), 4);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = decode(text, at);
    if (c == '\t') {
      const int64_t n = size > 0 ? size - column % size : 0;
      out.append(padding(r, n, " "));
      column += n;
    } else {
      column = c == '\n' || c == '\r' ? 0 : column + 1;
      out.append(text.substr(begin, at - begin));
    }
  }
  return like(r, self, out.take());
}

template <bool (*holds)(char32_t), bool when_empty = false>
Value all_are(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("the method", a, {}, 0);
  const std::string_view text = self.text();
  r.heap().spend_on(text.size(), 4);
  for (size_t at = 0; at < text.size();)
    if (!holds(decode(text, at))) return Value::boolean(false);
  return Value::boolean(when_empty || !text.empty());
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C);
}
bool is_numeric(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_ascii(char32_t c) { return c < 0x80; }

template <bool upper>
Value is_case(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("the method", a, {}, 0);
  return Value::boolean(all_cased(r, self.text(), upper));
}

Value istitle(Renderer& r, const Value& self, Arguments& a) {
  r.heap().spend_on(self.text().size(), 4);
  const Bound b("istitle", a, {}, 0);
  bool any = false, inside = false;
  const std::string_view text = self.text();
  for (size_t at = 0; at < text.size();) {
    const auto k = category(decode(text, at));
    if (k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LT) {
      if (inside) return Value::boolean(false);
      any = inside = true;
    } else if (k == UTF8PROC_CATEGORY_LL) {
      if (!inside) return Value::boolean(false);
    } else {
      inside = false;
    }
  }
  return Value::boolean(any);
}

Value isidentifier(Renderer& r, const Value& self, Arguments& a) {
  r.heap().spend_on(self.text().size(), 4);
  const Bound b("isidentifier", a, {}, 0);
  const std::string_view text = self.text();
  size_t at = 0;
  if (text.empty() || !is_identifier_start(decode(text, at))) return Value::boolean(false);
  while (at < text.size())
    if (!is_identifier_part(decode(text, at))) return Value::boolean(false);
  return Value::boolean(true);
}

constexpr MethodEntry kStringMethods[] = {{"strip", stripped<true, true>},
                                          {"lstrip", stripped<true, false>},
                                          {"rstrip", stripped<false, true>},
                                          {"split", split<false>},
                                          {"rsplit", split<true>},
                                          {"splitlines", splitlines},
                                          {"startswith", matches_end<true>},
                                          {"endswith", matches_end<false>},
                                          {"replace", replace},
                                          {"join", join},
                                          {"upper", converted<to_upper>},
                                          {"lower", converted<to_lower>},
                                          {"title", converted<to_title>},
                                          {"capitalize", converted<to_capitalised>},
                                          {"swapcase", converted<swap_case>},
                                          {"casefold", converted<fold_case>},
                                          {"find", find<false, false>},
                                          {"rfind", find<true, false>},
                                          {"index", find<false, true>},
                                          {"rindex", find<true, true>},
                                          {"count", count},
                                          {"partition", partition<false>},
                                          {"rpartition", partition<true>},
                                          {"removeprefix", without<true>},
                                          {"removesuffix", without<false>},
                                          {"ljust", justified<-1>},
                                          {"rjust", justified<1>},
                                          {"center", justified<0>},
                                          {"zfill", zfill},
                                          {"expandtabs", expandtabs},
                                          {"isdigit", all_are<is_digit>},
                                          {"isdecimal", all_are<is_decimal>},
                                          {"isnumeric", all_are<is_numeric>},
                                          {"isalpha", all_are<is_alpha>},
                                          {"isalnum", all_are<is_alnum>},
                                          {"isspace", all_are<is_space>},
                                          {"isascii", all_are<is_ascii, true>},
                                          {"isprintable", all_are<is_printable, true>},
                                          {"isupper", is_case<true>},
                                          {"islower", is_case<false>},
                                          {"istitle", istitle},
                                          {"isidentifier", isidentifier},
                                          {"format", format_braces}};

}  // namespace

std::string replaced(Renderer& r, std::string_view text, std::string_view from, std::string_view to, int64_t limit) {
  Buffer out(r.heap());
  r.heap().spend(static_cast<int64_t>(text.size() / 32));
  size_t begin = 0;
  for (size_t at = 0; limit != 0; --limit) {
    r.heap().spend(1);
    if (from.empty()) {
      out.append(to);
      if (begin >= text.size()) break;
      at = begin;
      decode(text, at);
      out.append(text.substr(begin, at - begin));
      begin = at;
      continue;
    }
    at = find_text(text, from, begin);
    if (at == npos) break;
    out.append(text.substr(begin, at - begin));
    out.append(to);
    begin = at + from.size();
  }
  if (begin < text.size()) out.append(text.substr(begin));
  return out.take();
}

bool all_cased(Renderer& r, std::string_view text, bool upper) {
  r.heap().spend_on(text.size(), 4);
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const auto k = category(decode(text, at));
    if (k == UTF8PROC_CATEGORY_LT || k == (upper ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU)) return false;
    any |= k == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL);
  }
  return any;
}

const MethodEntry* find_string_method(std::string_view name) {
  for (const MethodEntry& entry : kStringMethods)
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace drafthorse::jinja
