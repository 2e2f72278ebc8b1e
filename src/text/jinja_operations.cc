#include "text/jinja_operations.h"

#include <algorithm>
#include <cmath>

#include "text/jinja_print.h"
#include "text/jinja_runtime.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

constexpr int kMaxNesting = 400;

bool is_sequence(const Value& v) { return v.is(Kind::list) || v.is(Kind::tuple); }
const std::vector<Value>& items_of(const Value& v) { return v.as<ListObject>().items; }

bool equal_values(const Value& a, const Value& b, int depth);

int compare_doubles(double x, double y) { return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; }

// An integer against a float without rounding the integer: its whole part first, then what is behind the point.
int compare_int_double(Int i, double d) {
  if (!(std::fabs(d) < 1.7e38)) return std::isnan(d) ? 2 : d > 0 ? -1 : 1;
  const Int whole = static_cast<Int>(d);
  if (i != whole) return i < whole ? -1 : 1;
  return compare_doubles(0, d - std::trunc(d));
}

// -1, 0, 1, or 2 when there is no order (NaN).
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  if (!a.is_integral() && !b.is_integral()) return compare_doubles(a.as_double(), b.as_double());
  if (a.is_integral()) return compare_int_double(a.as_int(), b.as_double());
  const int reversed = compare_int_double(b.as_int(), a.as_double());
  return reversed == 2 ? 2 : -reversed;
}

bool equal_dicts(const DictObject& a, const DictObject& b, int depth) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (!other || !equal_values(value, *other, depth)) return false;
  }
  return true;
}

bool equal_values(const Value& a, const Value& b, int depth) {
  if (depth > kMaxNesting) fail("values are nested too deeply to compare");
  if (a.is_number() && b.is_number()) {
    return compare_numbers(a, b) == 0;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none:
    case Kind::undefined: return true;
    case Kind::string:
      if (a.text().size() != b.text().size()) return false;
      a.object()->heap->spend_on(a.text().size());
      return a.text() == b.text();
    case Kind::list:
    case Kind::tuple: {
      const auto &x = items_of(a), &y = items_of(b);
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i) {
        a.object()->heap->spend(1);
        if (!equal_values(x[i], y[i], depth + 1)) return false;
      }
      return true;
    }
    case Kind::dict:
      a.object()->heap->spend(static_cast<int64_t>(a.as<DictObject>().entries.size()));
      return a.object() == b.object() || equal_dicts(a.as<DictObject>(), b.as<DictObject>(), depth + 1);
    case Kind::range: {
      const auto &x = a.as<RangeObject>(), &y = b.as<RangeObject>();
      return x.count == y.count && (x.count == 0 || (x.start == y.start && (x.count == 1 || x.step == y.step)));
    }
    default: return a.object() == b.object();
  }
}

[[noreturn]] void fail_order(const char* symbol, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  fail(std::string("'") + symbol + "' not supported between instances of '" + type_name(a) + "' and '" + type_name(b) +
       "'");
}

// -1, 0, 1, or 2 when there is no order (NaN).
int order(Heap& heap, const Value& a, const Value& b, const char* symbol, int depth) {
  heap.spend(1);
  if (depth > kMaxNesting) fail("values are nested too deeply to compare");
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    heap.spend(static_cast<int64_t>(std::min(a.text().size(), b.text().size()) / 32));
    const int c = a.text().compare(b.text());
    return c < 0 ? -1 : c > 0;
  }
  if (is_sequence(a) && a.kind() == b.kind()) {
    const auto &x = items_of(a), &y = items_of(b);
    for (size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!equal(x[i], y[i])) return order(heap, x[i], y[i], symbol, depth + 1);
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  fail_order(symbol, a, b);
}

[[noreturn]] void fail_operands(const char* symbol, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  fail(std::string("unsupported operand type(s) for ") + symbol + ": '" + type_name(a) + "' and '" + type_name(b) +
       "'");
}

[[noreturn]] void fail_overflow() { fail("the integer result is larger than 127 bits"); }

Value finite(double result) { return Value::floating(result); }

Value repeat(Heap& heap, const Value& sequence, Int times) {
  if (times < 0) times = 0;
  const Int length =
      sequence.is_string() ? static_cast<Int>(sequence.text().size()) : static_cast<Int>(items_of(sequence).size());
  if (length && times > Int{1} << 40) fail("the repeated sequence is larger than the memory limit");
  const auto total = static_cast<size_t>(length * times);
  heap.check(sequence.is_string() ? total : total * sizeof(Value));
  if (sequence.is_string()) {
    std::string out;
    out.reserve(total);
    for (Int i = 0; i < times && length; ++i) out += sequence.text();
    return heap.string(std::move(out), sequence.as<StringObject>().markup);
  }
  heap.spend(static_cast<int64_t>(total));
  std::vector<Value> out;
  out.reserve(total);
  for (Int i = 0; i < times && length; ++i) out.insert(out.end(), items_of(sequence).begin(), items_of(sequence).end());
  return heap.sequence(sequence.kind(), std::move(out));
}

Int floor_quotient(Int a, Int b) {
  Int quotient = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) --quotient;
  return quotient;
}

double float_modulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder != 0) {
    if ((remainder < 0) != (b < 0)) remainder += b;
  } else {
    remainder = std::copysign(0.0, b);
  }
  return remainder;
}

// Python's float floor division: the exact floor of the quotient that belongs to the modulo.
double float_floor_quotient(double a, double b) {
  const double quotient = (a - float_modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

// The other operand of a Markup operation: escaped unless it is Markup.
std::string markup_operand(const Value& value) {
  return value.as<StringObject>().markup ? std::string(value.text()) : escape_html(value.text());
}

}  // namespace

bool equal(const Value& a, const Value& b) { return equal_values(a, b, 0); }

void fail_undefined(const Value& value) { fail(value.as<UndefinedObject>().message); }

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return value.as_bool();
    case Kind::integer: return value.as_int() != 0;
    case Kind::floating: return value.as_double() != 0;
    case Kind::string: return !value.text().empty();
    default: return length(value) != 0;
  }
}

bool less(Heap& heap, const Value& a, const Value& b, const char* symbol) { return order(heap, a, b, symbol, 0) == -1; }

bool less_equal(Heap& heap, const Value& a, const Value& b, const char* symbol) {
  const int o = order(heap, a, b, symbol, 0);
  return o == -1 || o == 0;
}

bool contains(Heap& heap, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is_string()) fail(std::string("'in <string>' requires string as left operand, not ") + type_name(item));
      heap.spend(static_cast<int64_t>(container.text().size() / 32));
      return find_text(container.text(), item.text()) != std::string_view::npos;
    case Kind::dict: return hash_of(item), container.as<DictObject>().find(item) != nullptr;
    case Kind::view:
      if (container.as<ViewObject>().what == ViewOf::keys)
        return hash_of(item), container.as<ViewObject>().dict->find(item) != nullptr;
      break;
    default: break;
  }
  if (!iterable(container)) fail(std::string("argument of type '") + type_name(container) + "' is not iterable");
  Iterator iterator(heap, container);
  for (Value candidate; iterator.next(candidate);)
    if (equal(candidate, item)) return true;
  return false;
}

Value add(Heap& heap, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    const bool markup = a.as<StringObject>().markup || b.as<StringObject>().markup;
    heap.check(a.text().size() + b.text().size());
    if (markup) return heap.string(markup_operand(a) + markup_operand(b), true);
    std::string out;
    out.reserve(a.text().size() + b.text().size());
    (out += a.text()) += b.text();
    return heap.string(std::move(out));
  }
  if (a.is_integral() && b.is_integral()) {
    Int result;
    if (__builtin_add_overflow(a.as_int(), b.as_int(), &result)) fail_overflow();
    return Value::integer(result);
  }
  if (a.is_number() && b.is_number()) return finite(a.as_double() + b.as_double());
  if (is_sequence(a) && a.kind() == b.kind()) {
    heap.check((items_of(a).size() + items_of(b).size()) * sizeof(Value));
    std::vector<Value> out = items_of(a);
    out.insert(out.end(), items_of(b).begin(), items_of(b).end());
    heap.spend(static_cast<int64_t>(out.size()));
    return heap.sequence(a.kind(), std::move(out));
  }
  if (a.is_string() && !b.is_undefined())
    fail(std::string("can only concatenate str (not \"") + type_name(b) + "\") to str");
  fail_operands("+", a, b);
}

Value subtract(Heap&, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    Int result;
    if (__builtin_sub_overflow(a.as_int(), b.as_int(), &result)) fail_overflow();
    return Value::integer(result);
  }
  if (a.is_number() && b.is_number()) return finite(a.as_double() - b.as_double());
  fail_operands("-", a, b);
}

Value multiply(Heap& heap, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    Int result;
    if (__builtin_mul_overflow(a.as_int(), b.as_int(), &result)) fail_overflow();
    return Value::integer(result);
  }
  if (a.is_number() && b.is_number()) return finite(a.as_double() * b.as_double());
  if ((a.is_string() || is_sequence(a)) && b.is_integral()) return repeat(heap, a, b.as_int());
  if ((b.is_string() || is_sequence(b)) && a.is_integral()) return repeat(heap, b, a.as_int());
  fail_operands("*", a, b);
}

Value divide(Heap&, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) fail_operands("/", a, b);
  if (b.as_double() == 0) fail(a.is_integral() && b.is_integral() ? "division by zero" : "float division by zero");
  return finite(a.as_double() / b.as_double());
}

Value floor_divide(Heap& heap, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) fail_operands("//", a, b);
  if (b.as_double() == 0) fail("integer division or modulo by zero");
  if (a.is_integral() && b.is_integral()) {
    if (b.as_int() == -1) return negate(heap, a);
    return Value::integer(floor_quotient(a.as_int(), b.as_int()));
  }
  return finite(float_floor_quotient(a.as_double(), b.as_double()));
}

Value modulo(Heap& heap, const Value& a, const Value& b) {
  if (a.is_string()) return format_percent(heap, a, b);
  if (!a.is_number() || !b.is_number()) fail_operands("%", a, b);
  if (b.as_double() == 0) fail("integer division or modulo by zero");
  if (a.is_integral() && b.is_integral()) {
    if (b.as_int() == -1) return Value::integer(0);
    const Int remainder = a.as_int() % b.as_int();
    return Value::integer(remainder != 0 && (remainder < 0) != (b.as_int() < 0) ? remainder + b.as_int() : remainder);
  }
  return finite(float_modulo(a.as_double(), b.as_double()));
}

Value power(Heap&, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) fail_operands("** or pow()", a, b);
  if (a.is_integral() && b.is_integral() && b.as_int() >= 0) {
    Int result = 1, base = a.as_int();
    for (Int left = b.as_int(); left > 0; left >>= 1) {
      if ((left & 1) && __builtin_mul_overflow(result, base, &result)) fail_overflow();
      if (left > 1 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
    }
    return Value::integer(result);
  }
  const double x = a.as_double(), y = b.as_double();
  if (x == 0 && y < 0) fail("0.0 cannot be raised to a negative power");
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && std::floor(y) != y)
    fail("a negative number to a fractional power is complex, which templates do not have");
  const double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) fail("Numerical result out of range");
  return finite(result);
}

Value negate(Heap&, const Value& value) {
  if (value.is(Kind::floating)) return Value::floating(-value.as_double());
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral()) fail(std::string("bad operand type for unary -: '") + type_name(value) + "'");
  Int result;
  if (__builtin_sub_overflow(Int{0}, value.as_int(), &result)) fail_overflow();
  return Value::integer(result);
}

Value positive(Heap&, const Value& value) {
  if (value.is(Kind::floating)) return value;
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral()) fail(std::string("bad operand type for unary +: '") + type_name(value) + "'");
  return Value::integer(value.as_int());
}

}  // namespace drafthorse::jinja
