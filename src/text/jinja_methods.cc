// Methods of containers and numbers, and the lookup of all methods.
#include <algorithm>
#include <cmath>

#include "text/jinja_library.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {

const MethodEntry* find_string_method(std::string_view name);

namespace {

DictObject& dict_of(const Value& self) { return self.as<DictObject>(); }

Value dict_get(Renderer&, const Value& self, Arguments& a) {
  if (!a.named.empty()) fail("get() takes no keyword arguments");
  const Bound b("get", a, {"key", "default"}, 1);
  hash_of(b[0]);
  const Value* found = dict_of(self).find(b[0]);
  return found ? *found : b.has(1) ? b[1] : Value();
}

Value view_of(Renderer& r, const Value& self, Arguments& a, const char* name, ViewOf what) {
  const Bound b(name, a, {}, 0);
  return r.heap().make<ViewObject>(Ref<DictObject>(&dict_of(self)), what);
}
Value dict_keys(Renderer& r, const Value& self, Arguments& a) { return view_of(r, self, a, "keys", ViewOf::keys); }
Value dict_values(Renderer& r, const Value& self, Arguments& a) {
  return view_of(r, self, a, "values", ViewOf::values);
}
Value dict_items(Renderer& r, const Value& self, Arguments& a) { return view_of(r, self, a, "items", ViewOf::items); }
Value dict_copy(Renderer&, const Value& self, Arguments& a) { return Bound("copy", a, {}, 0), self; }

[[noreturn]] Value forbidden(Renderer&, const Value& self, Arguments&) {
  fail(std::string("this method would change a ") + type_name(self) + ", which the sandbox does not allow");
}

Value list_count(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("count", a, {"value"}, 1);
  const auto& items = self.as<ListObject>().items;
  r.heap().spend(static_cast<int64_t>(items.size()));
  Int n = 0;
  for (const Value& item : items) n += equal(item, b[0]);
  return Value::integer(n);
}

Value list_index(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("index", a, {"value", "start", "stop"}, 1);
  const auto& items = self.as<ListObject>().items;
  const auto n = static_cast<int64_t>(items.size());
  r.heap().spend(n);
  const auto clip = [n](int64_t i) { return std::max<int64_t>(i < 0 ? i + n : i, 0); };
  const int64_t stop = std::min(clip(b.integer(2, n)), n);
  for (int64_t i = clip(b.integer(1, 0)); i < stop; ++i)
    if (equal(items[static_cast<size_t>(i)], b[0])) return Value::integer(i);
  fail(std::string(type_name(self)) + ".index(x): x not in " + type_name(self));
}

Value range_count(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("count", a, {"value"}, 1);
  return Value::integer(contains(r.heap(), self, b[0]));
}

Value range_index(Renderer& r, const Value& self, Arguments& a) {
  const Bound b("index", a, {"value"}, 1);
  Iterator items(r.heap(), self);
  Int i = 0;
  for (Value item; items.next(item); ++i)
    if (equal(item, b[0])) return Value::integer(i);
  fail("the value is not in the range");
}

Value int_bit_length(Renderer&, const Value& self, Arguments& a) {
  const Bound b("bit_length", a, {}, 0);
  Int bits = 0;
  for (Int n = self.as_int() < 0 ? -self.as_int() : self.as_int(); n; n >>= 1) ++bits;
  return Value::integer(bits);
}

Value float_is_integer(Renderer&, const Value& self, Arguments& a) {
  const Bound b("is_integer", a, {}, 0);
  return Value::boolean(std::isfinite(self.as_double()) && std::floor(self.as_double()) == self.as_double());
}

constexpr MethodEntry kDictMethods[] = {{"get", dict_get},       {"items", dict_items},  {"keys", dict_keys},
                                        {"values", dict_values}, {"copy", dict_copy},    {"clear", forbidden},
                                        {"pop", forbidden},      {"popitem", forbidden}, {"setdefault", forbidden},
                                        {"update", forbidden}};
constexpr MethodEntry kListMethods[] = {{"count", list_count},  {"index", list_index}, {"copy", dict_copy},
                                        {"append", forbidden},  {"clear", forbidden},  {"extend", forbidden},
                                        {"insert", forbidden},  {"pop", forbidden},    {"remove", forbidden},
                                        {"reverse", forbidden}, {"sort", forbidden}};
constexpr MethodEntry kTupleMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr MethodEntry kRangeMethods[] = {{"count", range_count}, {"index", range_index}};
constexpr MethodEntry kIntMethods[] = {{"bit_length", int_bit_length}};
constexpr MethodEntry kFloatMethods[] = {{"is_integer", float_is_integer}};

}  // namespace

const MethodEntry* find_method(const Value& self, std::string_view name) {
  const auto search = [name](const auto& table) -> const MethodEntry* {
    for (const MethodEntry& entry : table)
      if (entry.name == name) return &entry;
    return nullptr;
  };
  switch (self.kind()) {
    case Kind::string: return find_string_method(name);
    case Kind::dict: return search(kDictMethods);
    case Kind::list: return search(kListMethods);
    case Kind::tuple: return search(kTupleMethods);
    case Kind::range: return search(kRangeMethods);
    case Kind::boolean:
    case Kind::integer: return search(kIntMethods);
    case Kind::floating: return search(kFloatMethods);
    default: return find_object_method(self, name);
  }
}

}  // namespace drafthorse::jinja
