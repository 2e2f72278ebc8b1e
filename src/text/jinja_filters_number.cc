// Filters over numbers and single values.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja_library.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

Value filter_abs(Renderer& r, Arguments& a) {
  const Bound b("abs", a, {"value"}, 1);
  if (b[0].is(Kind::floating)) return Value::floating(std::fabs(b[0].as_double()));
  if (!b[0].is_integral()) fail(std::string("bad operand type for abs(): '") + type_name(b[0]) + "'");
  return b[0].as_int() < 0 ? negate(r.heap(), b[0]) : positive(r.heap(), b[0]);
}

Value whole(double d) {
  if (std::isinf(d)) fail("cannot convert float infinity to integer");
  if (std::fabs(d) > 1.7e38) fail("the integer result is larger than 127 bits");
  return Value::integer(static_cast<Int>(d));
}

Value filter_int(Renderer& r, Arguments& a) {
  const Bound b("int", a, {"value", "default", "base"}, 1);
  const Value otherwise = b.has(1) ? b[1] : Value::integer(0);
  if (b[0].is_undefined()) fail_undefined(b[0]);
  if (b[0].is_integral()) return Value::integer(b[0].as_int());
  if (b[0].is(Kind::floating)) return std::isnan(b[0].as_double()) ? otherwise : whole(b[0].as_double());
  if (!b[0].is_string()) return otherwise;
  r.heap().spend_on(b[0].text().size(), 4);
  if (const auto exact = parse_int(b[0].text(), static_cast<int>(b.integer(2, 10)))) return Value::integer(*exact);
  const auto approximate = parse_float(b[0].text());
  return approximate && !std::isnan(*approximate) ? whole(*approximate) : otherwise;
}

Value filter_float(Renderer& r, Arguments& a) {
  const Bound b("float", a, {"value", "default"}, 1);
  if (b[0].is_undefined()) fail_undefined(b[0]);
  if (b[0].is_number()) return Value::floating(b[0].as_double());
  if (b[0].is_string()) r.heap().spend_on(b[0].text().size(), 4);
  if (b[0].is_string())
    if (const auto value = parse_float(b[0].text())) return Value::floating(*value);
  return b.has(1) ? b[1] : Value::floating(0);
}

double round_double(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 340) return value;
  if (digits < -310) return std::copysign(0.0, value);
  if (digits >= 0) {  // the correctly rounded decimal, read back
    char buffer[700];
    snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), value);
    return std::strtod(buffer, nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  // To a multiple of scale, ties to an even multiple; fmod is exact, and each result is rounded once.
  const double size = std::fabs(value), rest = std::fmod(size, scale);
  const bool odd = std::fmod(size, 2 * scale) >= scale;
  const bool up = rest > scale / 2 || (rest == scale / 2 && odd);
  return std::copysign(up ? size + (scale - rest) : size - rest, value);
}

Value round_int(Int value, int64_t digits) {
  if (digits >= 0) return Value::integer(value);
  if (digits < -38) return Value::integer(0);
  Int scale = 1;
  for (int64_t i = 0; i < -digits; ++i) scale *= 10;
  Int rest = value % scale;
  if (rest < 0) rest += scale;
  const Int down = value - rest, twice = rest * 2;
  const bool up = twice > scale || (twice == scale && (down / scale) % 2 != 0);
  return Value::integer(up ? down + scale : down);
}

Value filter_round(Renderer&, Arguments& a) {
  const Bound b("round", a, {"value", "precision", "method"}, 1);
  const std::string_view method = b.string(2, "common");
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  if (b[0].is_undefined()) fail_undefined(b[0]);
  if (!b[0].is_number()) fail(std::string("type ") + type_name(b[0]) + " doesn't define __round__ method");
  if (method == "common" && b.has(1) && b[1].is_none()) {
    if (b[0].is_integral()) return Value::integer(b[0].as_int());
    if (std::isnan(b[0].as_double())) fail("cannot convert float NaN to integer");
    return whole(std::nearbyint(b[0].as_double()));
  }
  const int64_t digits = b.integer(1, 0);
  if (method == "common") {
    if (b[0].is_integral()) return round_int(b[0].as_int(), digits);
    return Value::floating(round_double(b[0].as_double(), digits));
  }
  const double scale = std::pow(10.0, static_cast<double>(digits)), scaled = b[0].as_double() * scale;
  if (!std::isfinite(scaled)) fail("cannot convert float infinity or NaN to integer");
  // Python's ceil and floor give integers, which have no negative zero.
  return Value::floating(((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / scale);
}

Value filter_sum(Renderer& r, Arguments& a) {
  const Bound b("sum", a, {"iterable", "attribute", "start"}, 1);
  const AttributePath path(r, b[1]);
  Value total = b.has(2) ? b[2] : Value::integer(0);
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  Iterator items(r.heap(), b[0]);
  for (Value item; items.next(item);) total = add(r.heap(), total, path(r, item));
  return total;
}

Value filter_default(Renderer& r, Arguments& a) {
  const Bound b("default", a, {"value", "default_value", "boolean"}, 1);
  if (b[0].is_undefined() || (b.flag(2, false) && !truth(b[0]))) return b.has(1) ? b[1] : r.heap().string("");
  return b[0];
}

Value filter_attr(Renderer& r, Arguments& a) {
  const Bound b("attr", a, {"obj", "name"}, 2);
  const std::string_view name = b.string(1);
  if (b[0].is_undefined()) fail_undefined(b[0]);
  Value found = find_attribute(r, b[0], name);
  return found.is_missing() ? r.heap().undefined("there is no attribute " + quoted(name)) : found;
}

Value filter_filesizeformat(Renderer& r, Arguments& a) {
  const Bound b("filesizeformat", a, {"value", "binary"}, 1);
  const bool binary = b.flag(1, false);
  std::optional<double> bytes;
  if (b[0].is_number()) bytes = b[0].as_double();
  else if (b[0].is_string()) bytes = parse_float(b[0].text());
  if (!bytes || !(std::fabs(*bytes) < 1e38)) fail("filesizeformat needs a number");
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return r.heap().string("1 Byte");
  if (*bytes < base) return r.heap().string(int_text(static_cast<Int>(*bytes)) + " Bytes");
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; *bytes >= unit && i + 1 < kPrefixes.size(); ++i) unit *= base;
  char buffer[400];
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  snprintf(buffer, sizeof buffer, "%.1f %c%s", base * *bytes / unit, prefix, binary ? "iB" : "B");
  return r.heap().string(buffer);
}

Value filter_tojson(Renderer& r, Arguments& a) {
  const Bound b("tojson", a, {"value", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonOptions options;
  options.ensure_ascii = b.flag(1, false);
  options.sort_keys = b.flag(4, false);
  if (b.has_value(2)) {
    options.indented = true;
    options.item_separator = ",";
    if (b[2].is_string()) options.indent = b[2].text();
    else {
      const int64_t width = b.integer(2, 0);
      if (width > 10'000) fail("tojson: the indent is too large");
      options.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (b.has_value(3)) {
    const auto separators = collect(r.heap(), b[3]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string())
      fail("tojson: separators must be two strings");
    options.item_separator = separators[0].text();
    options.key_separator = separators[1].text();
  }
  return r.heap().string(to_json(r.heap(), b[0], options));
}

}  // namespace

std::span<const FilterEntry> number_filters() {
  static constexpr FilterEntry kFilters[] = {
      {"abs", filter_abs},      {"int", filter_int},   {"float", filter_float},
      {"round", filter_round},  {"sum", filter_sum},   {"default", filter_default},
      {"d", filter_default},    {"attr", filter_attr}, {"filesizeformat", filter_filesizeformat},
      {"tojson", filter_tojson}};
  return kFilters;
}

}  // namespace drafthorse::jinja
