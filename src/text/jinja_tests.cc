// The tests after "is".
#include "text/jinja_library.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

// The one argument of a test without parameters.
Value only(Arguments& a) { return Bound("the test", a, {"value"}, 1)[0]; }

template <Kind kind>
bool is_kind(Renderer&, Arguments& a) {
  return only(a).is(kind);
}

bool test_defined(Renderer&, Arguments& a) { return !only(a).is_undefined(); }
bool test_true(Renderer&, Arguments& a) {
  const Value v = only(a);
  return v.is(Kind::boolean) && v.as_bool();
}
bool test_false(Renderer&, Arguments& a) {
  const Value v = only(a);
  return v.is(Kind::boolean) && !v.as_bool();
}
bool test_number(Renderer&, Arguments& a) { return only(a).is_number(); }
bool test_iterable(Renderer&, Arguments& a) { return iterable(only(a)); }

bool test_sequence(Renderer&, Arguments& a) {
  const Value v = only(a);
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range: return true;
    default: return false;
  }
}

bool test_callable(Renderer&, Arguments& a) {
  const Value v = only(a);
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::function:
    case Kind::method:
    case Kind::macro:
    case Kind::loop:
    case Kind::joiner: return true;
    default: return false;
  }
}

bool test_escaped(Renderer&, Arguments& a) {
  const Value v = only(a);
  return v.is_string() && v.as<StringObject>().markup;
}

template <bool upper>
bool test_case(Renderer& r, Arguments& a) {
  return all_cased(r, r.text(only(a)), upper);
}

bool divisible(Renderer& r, const Value& value, const Value& by) {
  return equal(modulo(r.heap(), value, by), Value::integer(0));
}
bool test_even(Renderer& r, Arguments& a) { return divisible(r, only(a), Value::integer(2)); }
bool test_odd(Renderer& r, Arguments& a) {
  return equal(modulo(r.heap(), only(a), Value::integer(2)), Value::integer(1));
}
bool test_divisibleby(Renderer& r, Arguments& a) {
  const Bound b("divisibleby", a, {"value", "num"}, 2);
  return divisible(r, b[0], b[1]);
}

bool test_sameas(Renderer&, Arguments& a) {
  const Bound b("sameas", a, {"value", "other"}, 2);
  if (b[0].kind() != b[1].kind()) return false;
  switch (b[0].kind()) {
    case Kind::none: return true;
    case Kind::boolean:
    case Kind::integer:
    case Kind::floating:
    case Kind::string: return equal(b[0], b[1]);
    default: return b[0].object() == b[1].object();
  }
}

bool test_filter(Renderer&, Arguments& a) {
  const Value v = only(a);
  return v.is_string() && find_filter(v.text());
}
bool test_test(Renderer&, Arguments& a) {
  const Value v = only(a);
  return v.is_string() && find_test(v.text());
}

template <bool (*holds)(Heap&, const Value&, const Value&)>
bool test_pair(Renderer& r, Arguments& a) {
  const Bound b("the test", a, {"a", "b"}, 2);
  return holds(r.heap(), b[0], b[1]);
}
bool is_equal(Heap&, const Value& a, const Value& b) { return equal(a, b); }
bool is_not_equal(Heap&, const Value& a, const Value& b) { return !equal(a, b); }
bool is_less(Heap& h, const Value& a, const Value& b) { return less(h, a, b); }
bool is_less_equal(Heap& h, const Value& a, const Value& b) { return less_equal(h, a, b); }
bool is_greater(Heap& h, const Value& a, const Value& b) { return less(h, b, a, ">"); }
bool is_greater_equal(Heap& h, const Value& a, const Value& b) { return less_equal(h, b, a, ">="); }
bool is_in(Heap& h, const Value& a, const Value& b) { return contains(h, b, a); }

constexpr std::pair<std::string_view, TestFunction> kTests[] = {{"defined", test_defined},
                                                                {"undefined", is_kind<Kind::undefined>},
                                                                {"none", is_kind<Kind::none>},
                                                                {"boolean", is_kind<Kind::boolean>},
                                                                {"true", test_true},
                                                                {"false", test_false},
                                                                {"integer", is_kind<Kind::integer>},
                                                                {"float", is_kind<Kind::floating>},
                                                                {"number", test_number},
                                                                {"string", is_kind<Kind::string>},
                                                                {"mapping", is_kind<Kind::dict>},
                                                                {"sequence", test_sequence},
                                                                {"iterable", test_iterable},
                                                                {"callable", test_callable},
                                                                {"sameas", test_sameas},
                                                                {"escaped", test_escaped},
                                                                {"lower", test_case<false>},
                                                                {"upper", test_case<true>},
                                                                {"odd", test_odd},
                                                                {"even", test_even},
                                                                {"divisibleby", test_divisibleby},
                                                                {"filter", test_filter},
                                                                {"test", test_test},
                                                                {"in", test_pair<is_in>},
                                                                {"==", test_pair<is_equal>},
                                                                {"eq", test_pair<is_equal>},
                                                                {"equalto", test_pair<is_equal>},
                                                                {"!=", test_pair<is_not_equal>},
                                                                {"ne", test_pair<is_not_equal>},
                                                                {"<", test_pair<is_less>},
                                                                {"lt", test_pair<is_less>},
                                                                {"lessthan", test_pair<is_less>},
                                                                {"<=", test_pair<is_less_equal>},
                                                                {"le", test_pair<is_less_equal>},
                                                                {">", test_pair<is_greater>},
                                                                {"gt", test_pair<is_greater>},
                                                                {"greaterthan", test_pair<is_greater>},
                                                                {">=", test_pair<is_greater_equal>},
                                                                {"ge", test_pair<is_greater_equal>}};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const auto& [known, test] : kTests)
    if (known == name) return test;
  return nullptr;
}

}  // namespace drafthorse::jinja
