// Filters over text.
#include <algorithm>

#include "text/jinja_library.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

// The value as text, which stays marked safe when it was.
Value soft_text(Renderer& r, const Value& value) { return value.is_string() ? value : r.heap().string(r.text(value)); }

Value call_method(Renderer& r, const Value& self, std::string_view name, std::vector<Value> positional) {
  Arguments arguments{std::move(positional), {}};
  return find_method(self, name)->method(r, self, arguments);
}

template <std::string (*convert)(std::string_view)>
Value converted(Renderer& r, Arguments& a) {
  const Bound b("the filter", a, {"s"}, 1);
  const Value text = soft_text(r, b[0]);
  r.heap().check(text.text().size() * 3);
  r.heap().spend_on(text.text().size(), 4);
  return r.heap().string(convert(text.text()), text.as<StringObject>().markup);
}

std::string title_words(std::string_view text) {
  std::string out;
  bool inside = false;  // of a piece: either delimiters or what is between them
  bool delimiters = false;
  size_t begin = 0;
  const auto flush = [&](size_t end) {
    size_t at = begin;
    if (begin == end) return;
    append_upper(out, decode(text, at));
    out += to_lower(text.substr(at, end - at));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const char32_t c = decode(text, at);
    const bool delimiter = c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
    if (inside && delimiter != delimiters) {
      flush(here);
      begin = here;
    }
    inside = true;
    delimiters = delimiter;
  }
  flush(text.size());
  return out;
}

Value filter_title(Renderer& r, Arguments& a) {
  const Bound b("title", a, {"s"}, 1);
  const std::string text = r.text(b[0]);
  r.heap().spend_on(text.size(), 4);
  return r.heap().string(title_words(text));
}

Value filter_trim(Renderer& r, Arguments& a) {
  const Bound b("trim", a, {"value", "chars"}, 1);
  const Value text = soft_text(r, b[0]);
  return call_method(r, text, "strip", b.has(1) ? std::vector<Value>{b[1]} : std::vector<Value>{});
}

Value filter_replace(Renderer& r, Arguments& a) {
  const Bound b("replace", a, {"s", "old", "new", "count"}, 3);
  const int64_t count = b.has_value(3) ? b.integer(3, -1) : -1;
  return r.heap().string(replaced(r, r.text(b[0]), r.text(b[1]), r.text(b[2]), count));
}

Value filter_string(Renderer& r, Arguments& a) {
  const Bound b("string", a, {"value"}, 1);
  return soft_text(r, b[0]);
}

Value filter_safe(Renderer& r, Arguments& a) {
  const Bound b("safe", a, {"value"}, 1);
  return r.heap().string(r.text(b[0]), true);
}

Value filter_escape(Renderer& r, Arguments& a) {
  const Bound b("escape", a, {"value"}, 1);
  if (b[0].is_string() && b[0].as<StringObject>().markup) return b[0];
  return r.heap().string(escape_html(r.text(b[0])), true);
}

Value filter_forceescape(Renderer& r, Arguments& a) {
  const Bound b("forceescape", a, {"value"}, 1);
  return r.heap().string(escape_html(r.text(b[0])), true);
}

Value filter_center(Renderer& r, Arguments& a) {
  const Bound b("center", a, {"value", "width"}, 1);
  return call_method(r, soft_text(r, b[0]), "center", {b.has(1) ? b[1] : Value::integer(80)});
}

Value filter_indent(Renderer& r, Arguments& a) {
  const Bound b("indent", a, {"s", "width", "first", "blank"}, 1);
  if (b[0].is_undefined()) fail_undefined(b[0]);
  if (!b[0].is_string()) fail(std::string("indent expected a string, found ") + type_name(b[0]));
  std::string indent;
  if (b.has(1) && b[1].is_string()) indent = b[1].text();
  else indent = std::string(static_cast<size_t>(std::clamp<int64_t>(b.integer(1, 4), 0, 100'000)), ' ');
  const bool blank = b.flag(3, false);
  const Value lines = call_method(r, r.heap().string(std::string(b[0].text()) + "\n"), "splitlines", {});
  Buffer out(r.heap());
  if (b.flag(2, false)) out.append(indent);
  for (bool first = true; const Value& line : lines.as<ListObject>().items) {
    if (!first) out.append("\n");
    if (!first && (blank || !line.text().empty())) out.append(indent);
    first = false;
    out.append(line.text());
  }
  return r.heap().string(out.take(), b[0].as<StringObject>().markup);
}

Value filter_truncate(Renderer& r, Arguments& a) {
  const Bound b("truncate", a, {"s", "length", "killwords", "end", "leeway"}, 1);
  const std::string_view end = b.string(3, "...");
  const int64_t limit = b.integer(1, 255), leeway = b.has_value(4) ? b.integer(4, 5) : 5;
  const int64_t end_length = count_code_points(end);
  if (limit < end_length)
    fail("truncate expected length >= " + std::to_string(end_length) + ", got " + std::to_string(limit));
  if (leeway < 0) fail("truncate expected leeway >= 0, got " + std::to_string(leeway));
  if (require_length(b[0]) <= limit + leeway) return b[0];
  if (!b[0].is_string()) fail(std::string("truncate expected a string, found ") + type_name(b[0]));
  std::string_view kept = b[0].text().substr(0, byte_offset(b[0].text(), limit - end_length));
  if (!b.flag(2, false)) kept = kept.substr(0, kept.rfind(' '));
  return r.heap().string(std::string(kept) + std::string(end), b[0].as<StringObject>().markup);
}

Value filter_wordcount(Renderer& r, Arguments& a) {
  const Bound b("wordcount", a, {"s"}, 1);
  const std::string text = r.text(b[0]);
  r.heap().spend_on(text.size(), 4);
  Int words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const bool word = is_word(decode(text, at));
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

std::string url_quoted(std::string_view text, bool query) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && isalnum(byte)) || c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query))
      out += c;
    else if (c == ' ' && query) out += '+';
    else ((out += '%') += kHex[byte >> 4]) += kHex[byte & 15];
  }
  return out;
}

Value filter_urlencode(Renderer& r, Arguments& a) {
  const Bound b("urlencode", a, {"value"}, 1);
  if (b[0].is_string() || !iterable(b[0])) return r.heap().string(url_quoted(r.text(b[0]), false));
  Value pairs = b[0];
  if (pairs.is(Kind::dict)) pairs = r.heap().make<ViewObject>(Ref<DictObject>(&b[0].as<DictObject>()), ViewOf::items);
  Buffer out(r.heap());
  Iterator items(r.heap(), pairs);
  bool first = true;
  for (Value item; items.next(item); first = false) {
    const auto pair = collect(r.heap(), item);
    if (pair.size() != 2) fail("urlencode needs pairs");
    if (!first) out.append("&");
    out.append(url_quoted(r.text(pair[0]), true) + "=" + url_quoted(r.text(pair[1]), true));
  }
  return r.heap().string(out.take());
}

Value filter_format(Renderer& r, Arguments& a) {
  if (a.positional.empty()) fail("format needs a value");
  const Value format = soft_text(r, a.positional[0]);
  a.positional.erase(a.positional.begin());
  if (a.named.empty()) return format_percent(r.heap(), format, r.heap().tuple(std::move(a.positional)));
  if (!a.positional.empty()) fail("can't handle positional and keyword arguments at the same time");
  const auto dict = r.heap().make<DictObject>();
  for (const auto& [name, value] : a.named) dict->set(r.heap().string(name), value);
  return format_percent(r.heap(), format, r.heap().seal(dict));
}

}  // namespace

std::span<const FilterEntry> text_filters() {
  static constexpr FilterEntry kFilters[] = {{"upper", converted<to_upper>},
                                             {"lower", converted<to_lower>},
                                             {"capitalize", converted<to_capitalised>},
                                             {"title", filter_title},
                                             {"trim", filter_trim},
                                             {"replace", filter_replace},
                                             {"string", filter_string},
                                             {"safe", filter_safe},
                                             {"escape", filter_escape},
                                             {"e", filter_escape},
                                             {"forceescape", filter_forceescape},
                                             {"center", filter_center},
                                             {"indent", filter_indent},
                                             {"truncate", filter_truncate},
                                             {"wordcount", filter_wordcount},
                                             {"urlencode", filter_urlencode},
                                             {"format", filter_format}};
  return kFilters;
}

}  // namespace drafthorse::jinja
