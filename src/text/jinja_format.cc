// Python's two ways to format text: the % operator and str.format.
#include <cmath>
#include <cstdio>

#include "text/jinja_library.h"
#include "text/jinja_operations.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > = ^
  char sign = '-';
  bool alternate = false, zero = false, comma = false, underscore = false;
  int64_t width = 0, precision = -1;
  char type = '\0';
};

constexpr int64_t kMaxWidth = 1'000'000;

std::string padded(std::string text, const Spec& spec, char default_align, size_t sign_length) {
  const int64_t extra = spec.width - count_code_points(text);
  if (extra <= 0) return text;
  const char align = spec.align ? spec.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? extra / 2 : extra;
  std::string before, after;
  for (int64_t i = 0; i < left; ++i) before += spec.fill;
  for (int64_t i = left; i < extra; ++i) after += spec.fill;
  if (align == '=') return text.substr(0, sign_length) + before + text.substr(sign_length);
  return before + text + after;
}

std::string digits_of(Int value, int base, bool upper) {
  auto rest = static_cast<unsigned __int128>(value);
  std::string out;
  do {
    const int digit = static_cast<int>(rest % static_cast<unsigned>(base));
    out.insert(out.begin(), static_cast<char>(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10));
    rest /= static_cast<unsigned>(base);
  } while (rest);
  return out;
}

std::string grouped(std::string digits, char separator, size_t size) {
  for (size_t i = digits.size(); i > size;) digits.insert(i -= size, 1, separator);
  return digits;
}

std::string float_digits(double value, const Spec& spec, char type) {  // of a non-negative number
  if (std::isnan(value)) return type < 'a' ? "NAN" : "nan";
  if (std::isinf(value)) return type < 'a' ? "INF" : "inf";
  if (type == '\0' && spec.precision < 0) return float_text(value);
  const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  const char used = type == '\0' ? 'g' : type == '%' ? 'f' : type;
  const std::string format = std::string("%") + (spec.alternate ? "#" : "") + ".*" + used;
  std::string out(400 + static_cast<size_t>(precision), '\0');
  out.resize(static_cast<size_t>(
      snprintf(out.data(), out.size(), format.c_str(), precision, type == '%' ? value * 100 : value)));
  if (type == '\0' && out.find_first_of(".en") == out.npos) out += ".0";
  return type == '%' ? out + '%' : out;
}

std::string number_text(const Value& value, const Spec& spec) {
  const bool integral = value.is_integral();
  char type = spec.type;
  const bool as_float = !integral || (type && std::string_view("eEfFgG%").find(type) != std::string_view::npos);
  const bool negative = as_float ? std::signbit(value.as_double()) : value.as_int() < 0;
  std::string head = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign), digits, prefix;
  if (as_float) {
    if (type && std::string_view("eEfFgG%").find(type) == std::string_view::npos && type != 'n')
      fail(std::string("Unknown format code '") + type + "' for object of type 'float'");
    digits = float_digits(std::fabs(value.as_double()), spec, type == 'n' ? 'g' : type);
  } else {
    if (type && std::string_view("dbBoxXnc").find(type) == std::string_view::npos)
      fail(std::string("Unknown format code '") + type + "' for object of type 'int'");
    const Int magnitude = value.as_int() < 0 ? -value.as_int() : value.as_int();
    if (type == 'x' || type == 'X' || type == 'o' || type == 'b') {
      digits = digits_of(magnitude, type == 'o' ? 8 : type == 'b' ? 2 : 16, type == 'X');
      if (spec.alternate) prefix = std::string("0") + type;
    } else if (type == 'c') {
      if (value.as_int() < 0 || value.as_int() > 0x10FFFF || (value.as_int() >= 0xD800 && value.as_int() < 0xE000))
        fail("%c arg not in range(0x110000)");
      append_utf8(digits, static_cast<char32_t>(value.as_int()));
      return padded(digits, spec, '<', 0);
    } else {
      digits = int_text(magnitude);
    }
  }
  if (spec.comma || spec.underscore) {
    const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = grouped(digits.substr(0, whole), spec.comma ? ',' : '_', 3) + digits.substr(whole);
  }
  head += prefix;
  const size_t head_size = head.size();
  return padded(head + digits, spec, '>', head_size);
}

std::string cut(const std::string& text, int64_t precision) {
  return precision < 0 ? text : text.substr(0, byte_offset(text, precision));
}

int64_t read_number(std::string_view text, size_t& at) {
  int64_t n = 0;
  while (at < text.size() && isdigit(static_cast<unsigned char>(text[at])))
    if ((n = n * 10 + (text[at++] - '0')) > kMaxWidth) fail("a format's width is too large");
  return n;
}

// ---- "..." % values

struct PercentFormat {
  Heap& heap;
  std::string_view format;
  const Value& values;
  size_t at = 0, used = 0;
  bool named = false;

  Value next() {
    if (!values.is(Kind::tuple)) {
      if (used++) fail("not enough arguments for format string");
      return values;
    }
    const auto& items = values.as<ListObject>().items;
    if (used >= items.size()) fail("not enough arguments for format string");
    return items[used++];
  }

  int64_t width() {
    if (at < format.size() && format[at] == '*') {
      ++at;
      const int64_t n = index_of(next(), "* wants");
      if (n > kMaxWidth || n < -kMaxWidth) fail("a format's width is too large");
      return n;
    }
    return read_number(format, at);
  }

  std::string directive() {
    Spec spec;
    Value value = Value::missing();
    if (at < format.size() && format[at] == '(') {
      const size_t end = format.find(')', at);
      if (end == format.npos) fail("incomplete format key");
      if (!values.is(Kind::dict)) fail("format requires a mapping");
      const Value* found = values.as<DictObject>().find(format.substr(at + 1, end - at - 1));
      if (!found) fail("the format key is missing: " + std::string(format.substr(at + 1, end - at - 1)));
      value = *found;
      named = true;
      at = end + 1;
    }
    for (; at < format.size() && std::string_view("-+ #0").find(format[at]) != std::string_view::npos; ++at) {
      if (format[at] == '-') spec.align = '<';
      else if (format[at] == '+') spec.sign = '+';
      else if (format[at] == ' ' && spec.sign != '+') spec.sign = ' ';
      else if (format[at] == '#') spec.alternate = true;
      else if (format[at] == '0') spec.zero = true;
    }
    spec.width = width();
    if (spec.width < 0) spec.align = '<', spec.width = -spec.width;
    if (at < format.size() && format[at] == '.') spec.precision = (++at, std::max<int64_t>(width(), 0));
    while (at < format.size() && (format[at] == 'l' || format[at] == 'h' || format[at] == 'L')) ++at;
    if (at >= format.size()) fail("incomplete format");
    const char type = format[at++];
    if (type == '%') return "%";
    if (value.is_missing()) value = next();
    return formatted(spec, type, value);
  }

  std::string formatted(Spec spec, char type, const Value& value) {
    if (type == 's' || type == 'r' || type == 'a')
      return padded(cut(type == 's' ? to_text(heap, value) : representation(heap, value), spec.precision), spec, '>',
                    0);
    if (type == 'c' && value.is_string()) {
      if (count_code_points(value.text()) != 1) fail("%c requires int or char");
      return padded(std::string(value.text()), spec, '>', 0);
    }
    if (std::string_view("diuoxXeEfFgGc").find(type) == std::string_view::npos)
      fail(std::string("unsupported format character '") + type + "'");
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_number())
      fail(std::string("%") + type + " format: a real number is required, not " + type_name(value));
    Value number = value;
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    if (spec.type == 'd' && !number.is_integral()) {
      if (!std::isfinite(number.as_double()) || std::fabs(number.as_double()) > 1e38)
        fail("cannot convert float to integer");
      number = Value::integer(static_cast<Int>(number.as_double()));
    }
    if (std::string_view("oxXc").find(type) != std::string_view::npos && !number.is_integral())
      fail(std::string("%") + type + " format: an integer is required, not float");
    if (spec.zero && !spec.align) spec.fill = "0", spec.align = '=';
    if (type == 'c') spec.align = spec.align == '<' ? '<' : '>', spec.fill = " ";
    if (number.is_integral() && spec.type == 'd' && spec.precision > 0) {
      std::string digits = int_text(number.as_int() < 0 ? -number.as_int() : number.as_int());
      if (static_cast<int64_t>(digits.size()) < spec.precision)
        digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
      const std::string head = number.as_int() < 0 ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
      return padded(head + digits, spec, '>', head.size());
    }
    if (spec.align == '\0') spec.align = '>';
    return number_text(number, spec);
  }

  std::string run() {
    Buffer out(heap);
    while (at < format.size()) {
      const size_t percent = std::min(format.find('%', at), format.size());
      out.append(format.substr(at, percent - at));
      at = percent + 1;
      if (percent < format.size()) out.append(directive());
    }
    const bool all_used = values.is(Kind::tuple) ? used == values.as<ListObject>().items.size() : used == 1;
    if (!all_used && !named && !values.is(Kind::dict) && !values.is(Kind::list))
      fail("not all arguments converted during string formatting");
    return out.take();
  }
};

// ---- str.format

struct BraceFormat {
  Renderer& r;
  Arguments& arguments;
  int64_t automatic = 0;

  Value field(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, end);
    Value value = Value::missing();
    // As jinja2's sandbox formats: only a wholly empty field is numbered automatically.
    if (name.empty() || (!first.empty() && first.find_first_not_of("0123456789") == first.npos)) {
      if (end == name.size() && (name.empty() ? automatic < 0 : automatic > 0))
        fail("cannot switch between automatic and manual field numbering");
      size_t at = 0;
      const int64_t i = first.empty() ? automatic++ : read_number(first, at);
      if (!name.empty() && end == name.size()) automatic = -1;
      if (i >= static_cast<int64_t>(arguments.positional.size()))
        fail("Replacement index " + std::to_string(i) + " out of range for positional args tuple");
      value = arguments.positional[static_cast<size_t>(i)];
    } else {
      for (const auto& [key, argument] : arguments.named)
        if (key == first) value = argument;
      if (value.is_missing()) fail("str.format is missing the argument " + quoted(first));
    }
    return path(value, name.substr(end));
  }

  Value path(Value value, std::string_view rest) {
    while (!rest.empty()) {
      if (rest[0] == '.') {
        const size_t end = std::min(rest.find_first_of(".[", 1), rest.size());
        value = r.attribute(value, rest.substr(1, end - 1));
        rest.remove_prefix(end);
      } else {
        const size_t end = rest.find(']');
        if (end == rest.npos || end == 1) fail("Missing ']' in format string");
        const std::string_view key = rest.substr(1, end - 1);
        const auto number = key.find_first_not_of("0123456789") == key.npos ? parse_int(key, 10) : std::nullopt;
        value = r.item(value, number ? Value::integer(*number) : r.heap().string(std::string(key)));
        rest.remove_prefix(end + 1);
        if (!rest.empty() && rest[0] != '.' && rest[0] != '[')
          fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static Spec parse(std::string_view text) {
    Spec spec;
    size_t at = 0;
    if (!text.empty()) {
      size_t next = 0;
      decode(text, next);
      if (next < text.size() && std::string_view("<>=^").find(text[next]) != std::string_view::npos) {
        spec.fill = text.substr(0, next);
        spec.align = text[next];
        at = next + 1;
      } else if (std::string_view("<>=^").find(text[0]) != std::string_view::npos) {
        spec.align = text[0];
        at = 1;
      }
    }
    if (at < text.size() && std::string_view("+- ").find(text[at]) != std::string_view::npos) spec.sign = text[at++];
    if (at < text.size() && text[at] == '#') spec.alternate = true, ++at;
    if (at < text.size() && text[at] == '0') {
      spec.zero = true;
      if (!spec.align) spec.fill = "0", spec.align = '=';
      ++at;
    }
    spec.width = read_number(text, at);
    if (at < text.size() && (text[at] == ',' || text[at] == '_'))
      (text[at++] == ',' ? spec.comma : spec.underscore) = true;
    if (at < text.size() && text[at] == '.') {
      ++at;
      if (at >= text.size() || !isdigit(static_cast<unsigned char>(text[at])))
        fail("Format specifier missing precision");
      spec.precision = read_number(text, at);
    }
    if (at < text.size()) spec.type = text[at++];
    if (at != text.size()) fail("Invalid format specifier");
    return spec;
  }

  std::string formatted(const Value& value, std::string_view text) {
    if (text.empty()) return r.text(value);
    const Spec spec = parse(text);
    if (value.is_number()) return number_text(value, spec);
    if (!value.is_string())
      fail(std::string("unsupported format string passed to ") + type_name(value) + ".__format__");
    if ((spec.type && spec.type != 's') || (spec.align == '=' && !spec.zero) || spec.sign != '-' || spec.alternate ||
        spec.comma || spec.underscore)
      fail("the format code is not one for strings");
    Spec plain = spec;
    if (plain.align == '=') plain.align = '<';
    return padded(cut(r.text(value), spec.precision), plain, '<', 0);
  }

  std::string expand(std::string_view format, int depth) {
    if (depth > 2) fail("Max string recursion exceeded");
    Buffer out(r.heap());
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
        out.append(std::string_view(&format[at], 1));
        at += 2;
      } else if (c == '}') {
        fail("Single '}' encountered in format string");
      } else if (c == '{') {
        out.append(replacement(format, at, depth));
      } else {
        const size_t end = std::min(format.find_first_of("{}", at), format.size());
        out.append(format.substr(at, end - at));
        at = end;
      }
    }
    return out.take();
  }

  std::string replacement(std::string_view format, size_t& at, int depth) {
    size_t end = at + 1;
    for (int open = 1; end < format.size(); ++end) {
      open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
      if (!open) break;
    }
    if (end >= format.size()) fail("expected '}' before end of string");
    std::string_view field_text = format.substr(at + 1, end - at - 1);
    at = end + 1;
    const size_t stop = std::min(field_text.find_first_of("!:"), field_text.size());
    Value value = field(field_text.substr(0, stop));
    std::string_view rest = field_text.substr(stop);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest[1] != 's' && rest[1] != 'r' && rest[1] != 'a'))
        fail("Unknown conversion specifier in format string");
      value = r.heap().string(rest[1] == 's' ? r.text(value) : representation(r.heap(), value));
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':') fail("expected ':' after conversion specifier");
    const std::string spec = rest.empty() ? "" : expand(rest.substr(1), depth + 1);
    return formatted(value, spec);
  }
};

}  // namespace

Value format_percent(Heap& heap, const Value& format, const Value& values) {
  PercentFormat percent{heap, format.text(), values};
  return heap.string(percent.run(), format.as<StringObject>().markup);
}

Value format_braces(Renderer& r, const Value& format, Arguments& arguments) {
  BraceFormat braces{r, arguments};
  return r.heap().string(braces.expand(format.text(), 0), format.as<StringObject>().markup);
}

}  // namespace drafthorse::jinja
