// Length, iteration, indexing and slicing (declared in jinja_operations.h).
#include <algorithm>
#include <limits>

#include "text/jinja_operations.h"
#include "text/jinja_runtime.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

Value pair_of(Heap& heap, const std::pair<Value, Value>& entry) { return heap.tuple({entry.first, entry.second}); }

Value view_item(Heap& heap, const ViewObject& view, size_t i) {
  const auto& entry = view.dict->entries[i];
  if (view.what == ViewOf::keys) return entry.first;
  return view.what == ViewOf::values ? entry.second : pair_of(heap, entry);
}

// The character at a code point index.
std::string_view character(const Value& string, int64_t index) {
  const std::string_view text = string.text();
  const bool ascii = static_cast<size_t>(string.as<StringObject>().length()) == text.size();
  const size_t begin = ascii ? static_cast<size_t>(index) : byte_offset(text, index);
  string.object()->heap->spend(static_cast<int64_t>(ascii ? 1 : 1 + begin / 32));
  size_t end = begin;
  decode(text, end);
  return text.substr(begin, end - begin);
}

Value bounded_slice(Heap& heap, const Value& container, Int start, Int stop, Int step, Int count) {
  heap.spend(static_cast<int64_t>(count));
  if (container.is(Kind::range)) {
    const auto& range = container.as<RangeObject>();
    const Int first = range.start + start * range.step, stride = range.step * step;
    return heap.make<RangeObject>(first, range.start + stop * range.step, stride, count);
  }
  if (!container.is_string()) {
    const auto& items = container.as<ListObject>().items;
    heap.check(static_cast<size_t>(count) * sizeof(Value));
    std::vector<Value> out;
    out.reserve(static_cast<size_t>(count));
    for (Int i = 0; i < count; ++i) out.push_back(items[static_cast<size_t>(start + i * step)]);
    return heap.sequence(container.kind(), std::move(out));
  }
  const std::string_view text = container.text();
  const bool markup = container.as<StringObject>().markup;
  const bool ascii = static_cast<size_t>(container.as<StringObject>().length()) == text.size();
  if (!ascii) heap.spend_on(text.size());
  std::string out;
  if (step == 1) {
    const size_t begin = ascii ? static_cast<size_t>(start) : byte_offset(text, static_cast<int64_t>(start));
    const size_t size =
        ascii ? static_cast<size_t>(count) : byte_offset(text.substr(begin), static_cast<int64_t>(count));
    out = text.substr(begin, size);
  } else {
    std::vector<uint32_t> offsets;  // of every code point
    heap.spend(static_cast<int64_t>(text.size() / 8));
    heap.check(text.size() * sizeof(uint32_t));
    for (size_t at = 0; at < text.size(); decode(text, at)) offsets.push_back(static_cast<uint32_t>(at));
    for (Int i = 0; i < count; ++i) {
      size_t at = offsets[static_cast<size_t>(start + i * step)];
      const size_t begin = at;
      decode(text, at);
      out += text.substr(begin, at - begin);
    }
  }
  return heap.string(std::move(out), markup);
}

}  // namespace

int64_t length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return 0;
    case Kind::string: return value.as<StringObject>().length();
    case Kind::list:
    case Kind::tuple: return static_cast<int64_t>(value.as<ListObject>().items.size());
    case Kind::dict: return static_cast<int64_t>(value.as<DictObject>().entries.size());
    case Kind::view: return static_cast<int64_t>(value.as<ViewObject>().dict->entries.size());
    case Kind::range: return static_cast<int64_t>(value.as<RangeObject>().count);
    case Kind::loop: return value.as<LoopObject>().length();
    default: return -1;
  }
}

int64_t require_length(const Value& value) {
  const int64_t n = length(value);
  if (n < 0) fail(std::string("object of type '") + type_name(value) + "' has no len()");
  return n;
}

int64_t index_of(const Value& value, const char* what) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integral()) fail(std::string(what) + " must be an integer, not " + type_name(value));
  const Int i = value.as_int();
  constexpr Int kMost = std::numeric_limits<int64_t>::max() / 4;
  return static_cast<int64_t>(std::clamp(i, -kMost, kMost));
}

Value get_item(Heap& heap, const Value& container, const Value& key) {
  switch (container.kind()) {
    case Kind::dict: {
      if (!hashable(key)) return Value::missing();
      const Value* found =
          key.is_string() ? container.as<DictObject>().find(key.text()) : container.as<DictObject>().find(key);
      return found ? *found : Value::missing();
    }
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::range: {
      if (!key.is_integral()) return Value::missing();
      Int i = key.as_int();
      const int64_t n = length(container);
      if (i < 0) i += n;
      if (i < 0 || i >= n) return Value::missing();
      if (container.is_string())
        return heap.string(std::string(character(container, static_cast<int64_t>(i))),
                           container.as<StringObject>().markup);
      if (container.is(Kind::range)) {
        const auto& range = container.as<RangeObject>();
        return Value::integer(range.start + i * range.step);
      }
      return container.as<ListObject>().items[static_cast<size_t>(i)];
    }
    case Kind::undefined: fail_undefined(container);
    default: return Value::missing();
  }
}

Value slice(Heap& heap, const Value& container, const Value& start, const Value& stop, const Value& step) {
  switch (container.kind()) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::range: break;
    case Kind::undefined: fail_undefined(container);
    case Kind::dict: fail("unhashable type: 'slice'");
    default: fail(std::string("'") + type_name(container) + "' object is not subscriptable");
  }
  const Int n = length(container);
  const Int stride = step.is_none() ? 1 : index_of(step, "a slice step");
  if (stride == 0) fail("slice step cannot be zero");
  const auto bound = [&](const Value& v, Int otherwise) -> Int {
    if (v.is_none()) return otherwise;
    Int i = index_of(v, "a slice index");
    if (i < 0) i += n;
    return stride > 0 ? std::clamp(i, Int{0}, n) : std::clamp(i, Int{-1}, n - 1);
  };
  const Int first = bound(start, stride > 0 ? 0 : n - 1), last = bound(stop, stride > 0 ? n : -1);
  Int count = stride > 0 ? (last - first + stride - 1) / stride : (first - last - stride - 1) / -stride;
  if (stride > 0 ? last <= first : last >= first) count = 0;
  return bounded_slice(heap, container, first, last, stride, count);
}

bool iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
    case Kind::generator:
    case Kind::loop: return true;
    default: return false;
  }
}

Iterator::Iterator(Heap& heap, Value source) : heap_(&heap), source_(std::move(source)) {
  if (!iterable(source_)) fail(std::string("'") + type_name(source_) + "' object is not iterable");
}

bool Iterator::next(Value& item) {
  heap_->spend(1);
  const size_t i = position_;
  switch (source_.kind()) {
    case Kind::string: {
      const std::string_view text = source_.text();
      if (i >= text.size()) return false;
      decode(text, position_);
      item = heap_->string(std::string(text.substr(i, position_ - i)));
      return true;
    }
    case Kind::list:
    case Kind::tuple: {
      const auto& items = source_.as<ListObject>().items;
      if (i >= items.size()) return false;
      item = items[i];
      break;
    }
    case Kind::dict: {
      const auto& entries = source_.as<DictObject>().entries;
      if (i >= entries.size()) return false;
      item = entries[i].first;
      break;
    }
    case Kind::view: {
      const auto& view = source_.as<ViewObject>();
      if (i >= view.dict->entries.size()) return false;
      item = view_item(*heap_, view, i);
      break;
    }
    case Kind::range: {
      const auto& range = source_.as<RangeObject>();
      if (static_cast<Int>(i) >= range.count) return false;
      item = Value::integer(range.start + static_cast<Int>(i) * range.step);
      break;
    }
    case Kind::generator: return source_.as<GeneratorObject>().next(item);
    case Kind::loop: {
      auto& loop = source_.as<LoopObject>();
      if (!loop.advance()) return false;
      item = heap_->tuple({loop.current, source_});
      return true;
    }
    default: return false;
  }
  ++position_;
  return true;
}

std::vector<Value> collect(Heap& heap, const Value& source) {
  if (source.is(Kind::list) || source.is(Kind::tuple)) {
    const auto& items = source.as<ListObject>().items;
    heap.spend(static_cast<int64_t>(items.size()));
    heap.check(items.size() * sizeof(Value));
    return items;
  }
  std::vector<Value> out;
  Iterator iterator(heap, source);
  for (Value item; iterator.next(item);) {
    if (out.size() % 1024 == 0) heap.check((out.size() + 1024) * 2 * sizeof(Value));
    out.push_back(std::move(item));
  }
  return out;
}

std::vector<Value> reversed(Heap& heap, const Value& sequence) {
  switch (sequence.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range: break;
    default: fail(std::string("'") + type_name(sequence) + "' object is not reversible");
  }
  std::vector<Value> out = collect(heap, sequence);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace drafthorse::jinja
