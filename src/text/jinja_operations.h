#pragma once
// Python's operators over template values. Wrong types fail with Python's words where they are short.

#include "text/jinja_value.h"

namespace drafthorse::jinja {

bool truth(const Value& value);
bool less(Heap& heap, const Value& a, const Value& b, const char* symbol = "<");  // symbol: for the message
bool less_equal(Heap& heap, const Value& a, const Value& b, const char* symbol = "<=");
bool contains(Heap& heap, const Value& container, const Value& item);

Value add(Heap& heap, const Value& a, const Value& b);
Value subtract(Heap& heap, const Value& a, const Value& b);
Value multiply(Heap& heap, const Value& a, const Value& b);
Value divide(Heap& heap, const Value& a, const Value& b);
Value floor_divide(Heap& heap, const Value& a, const Value& b);
Value modulo(Heap& heap, const Value& a, const Value& b);
Value power(Heap& heap, const Value& a, const Value& b);
Value negate(Heap& heap, const Value& value);
Value positive(Heap& heap, const Value& value);

// len(); negative when the value has none.
int64_t length(const Value& value);
int64_t require_length(const Value& value);
// container[key]; missing when Python raises LookupError or TypeError.
Value get_item(Heap& heap, const Value& container, const Value& key);
// container[start:stop:step]; missing bounds are None.
Value slice(Heap& heap, const Value& container, const Value& start, const Value& stop, const Value& step);

// Items of any iterable in Python's order: characters, keys, items.
class Iterator {
 public:
  Iterator(Heap& heap, Value iterable);  // fails when it is not iterable
  bool next(Value& item);
  void drop() { source_ = Value(); }  // there are no more items

 private:
  Heap* heap_;
  Value source_;
  size_t position_ = 0;
};
bool iterable(const Value& value);
std::vector<Value> collect(Heap& heap, const Value& iterable);
// Items last to first; fails for values that Python cannot reverse.
std::vector<Value> reversed(Heap& heap, const Value& sequence);

// Fails with the message that the undefined value carries.
[[noreturn]] void fail_undefined(const Value& value);
// As an index: integer or boolean; fails otherwise.
int64_t index_of(const Value& value, const char* what);

}  // namespace drafthorse::jinja
