#pragma once
// The functions that templates can name: filters, tests, methods, globals.

#include <initializer_list>
#include <span>
#include <string_view>

#include "text/jinja_runtime.h"

namespace drafthorse::jinja {

FilterFunction find_filter(std::string_view name);  // null: there is none
TestFunction find_test(std::string_view name);
struct MethodEntry {
  std::string_view name;
  Method method;
};
const MethodEntry* find_method(const Value& self, std::string_view name);
const MethodEntry* find_object_method(const Value& self, std::string_view name);  // of loops and cyclers
void define_globals(Renderer& renderer);

struct FilterEntry {
  std::string_view name;
  FilterFunction filter;
};
// One table a file; find_filter searches them all.
std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> number_filters();

// Arguments by Python's rules, positional or named. Names in order; the first `required` must be given; the others are
// missing when they are not. Fails on too many or unknown ones.
class Bound {
 public:
  Bound(std::string_view function, Arguments& arguments, std::initializer_list<std::string_view> names,
        size_t required);
  const Value& operator[](size_t i) const { return values_[i]; }
  bool has(size_t i) const { return !values_[i].is_missing(); }
  bool flag(size_t i, bool otherwise) const { return has(i) ? truth(values_[i]) : otherwise; }
  int64_t integer(size_t i, int64_t otherwise) const;
  // A string argument, which stays valid as long as the binding; fails for other types.
  std::string_view string(size_t i, std::string_view otherwise = {}) const;
  bool has_value(size_t i) const { return has(i) && !values_[i].is_none(); }

 private:
  std::string_view function_;
  std::vector<Value> values_;
};

Value format_braces(Renderer& renderer, const Value& format, Arguments& arguments);  // "...".format(...)
// text with `limit` occurrences of from replaced (negative: all), as str.replace.
std::string replaced(Renderer& renderer, std::string_view text, std::string_view from, std::string_view to,
                     int64_t limit);
// str.isupper and str.islower.
bool all_cased(Renderer& renderer, std::string_view text, bool upper);

// The value of a dotted attribute path as filters take it ("a.b.0"), applied to each item.
class AttributePath {
 public:
  AttributePath() = default;  // the item itself
  AttributePath(Renderer& renderer, const Value& attribute);
  // otherwise: in place of what the path does not find, unless it is missing.
  Value operator()(Renderer& renderer, Value item, const Value& otherwise = Value::missing()) const;

 private:
  std::vector<Value> steps_;
};

}  // namespace drafthorse::jinja
