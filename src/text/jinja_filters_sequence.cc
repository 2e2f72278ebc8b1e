// Filters over sequences. Those that are generators in jinja2 are lazy here too.
#include <algorithm>

#include "text/jinja_library.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

Value without_case(Renderer& r, const Value& value) {
  return value.is_string() ? r.heap().string(to_lower(value.text())) : value;
}

// What to sort, group and compare by: an attribute path, lower case unless case matters.
struct Key {
  AttributePath path;
  bool case_sensitive;
  Value otherwise = Value::missing();  // for what the path does not find
  Value operator()(Renderer& r, const Value& item) const {
    const Value value = path(r, item, otherwise);
    return case_sensitive ? value : without_case(r, value);
  }
};

// The items of a generator's source, which is looked at only when the first item is asked for.
class LazyIterator {
 public:
  LazyIterator(Heap& heap, Value source) : heap_(&heap), source_(std::move(source)) {}
  bool next(Value& item) {
    if (!iterator_) iterator_.emplace(*heap_, source_);
    return iterator_->next(item);
  }

 private:
  Heap* heap_;
  Value source_;
  std::optional<Iterator> iterator_;
};

using Keyed = std::vector<std::pair<Value, Value>>;  // key, item

// Stable, by Python's "<".
void sort_keyed(Renderer& r, Keyed& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(r.heap(), b.first, a.first) : less(r.heap(), a.first, b.first);
  });
}

Keyed keyed(Renderer& r, const Value& iterable, const Key& key) {
  Keyed out;
  Iterator items(r.heap(), iterable);
  for (Value item; items.next(item);) {
    if (out.size() % 1024 == 0) r.heap().check((out.size() + 1024) * 4 * sizeof(Value));
    Value k = key(r, item);
    out.emplace_back(std::move(k), std::move(item));
  }
  return out;
}

Value values_of(Renderer& r, Keyed&& items) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (auto& item : items) out.push_back(std::move(item.second));
  return r.heap().list(std::move(out));
}

Value filter_sort(Renderer& r, Arguments& a) {
  const Bound b("sort", a, {"value", "reverse", "case_sensitive", "attribute"}, 1);
  const bool case_sensitive = b.flag(2, false);
  std::vector<Key> keys;
  if (b.has_value(3) && b[3].is_string()) {
    const std::string_view names = b[3].text();
    for (size_t begin = 0; begin <= names.size();) {
      const size_t end = std::min(names.find(',', begin), names.size());
      keys.push_back(
          {AttributePath(r, r.heap().string(std::string(names.substr(begin, end - begin)))), case_sensitive});
      begin = end + 1;
    }
  } else {
    keys.push_back({AttributePath(r, b[3]), case_sensitive});
  }
  Keyed items;
  Iterator source(r.heap(), b[0]);
  for (Value item; source.next(item);) {
    std::vector<Value> parts;  // compared as a list: equal values need no order
    for (const Key& key : keys) parts.push_back(key(r, item));
    items.emplace_back(r.heap().list(std::move(parts)), std::move(item));
  }
  sort_keyed(r, items, b.flag(1, false));
  return values_of(r, std::move(items));
}

Value filter_dictsort(Renderer& r, Arguments& a) {
  const Bound b("dictsort", a, {"value", "case_sensitive", "by", "reverse"}, 1);
  if (b[0].is_undefined()) fail_undefined(b[0]);
  if (!b[0].is(Kind::dict)) fail(std::string("dictsort expected a mapping, found ") + type_name(b[0]));
  const std::string_view by = b.string(2, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  Keyed items;
  for (const auto& [key, value] : b[0].as<DictObject>().entries) {
    const Value& sorted = by == "key" ? key : value;
    items.emplace_back(b.flag(1, false) ? sorted : without_case(r, sorted), r.heap().tuple({key, value}));
  }
  sort_keyed(r, items, b.flag(3, false));
  return values_of(r, std::move(items));
}

Value filter_items(Renderer& r, Arguments& a) {
  const Bound b("items", a, {"value"}, 1);
  auto source = std::make_shared<Value>(b[0]);
  auto iterator = std::make_shared<std::optional<Iterator>>();
  return r.heap().generator([&heap = r.heap(), source, iterator](Value& item) {
    if (source->is_undefined()) return false;
    if (!source->is(Kind::dict)) fail("Can only get item pairs from a mapping.");
    if (!*iterator)
      iterator->emplace(heap, heap.make<ViewObject>(Ref<DictObject>(&source->as<DictObject>()), ViewOf::items));
    return (*iterator)->next(item);
  });
}

Value filter_first(Renderer& r, Arguments& a) {
  const Bound b("first", a, {"seq"}, 1);
  Iterator items(r.heap(), b[0]);
  Value item;
  return items.next(item) ? item : r.heap().undefined("No first item, sequence was empty.");
}

Value filter_last(Renderer& r, Arguments& a) {
  const Bound b("last", a, {"seq"}, 1);
  auto items = reversed(r.heap(), b[0]);
  return items.empty() ? r.heap().undefined("No last item, sequence was empty.") : items.front();
}

Value filter_length(Renderer&, Arguments& a) {
  const Bound b("length", a, {"value"}, 1);
  return Value::integer(require_length(b[0]));
}

Value filter_list(Renderer& r, Arguments& a) {
  const Bound b("list", a, {"value"}, 1);
  return r.heap().list(collect(r.heap(), b[0]));
}

Value filter_join(Renderer& r, Arguments& a) {
  const Bound b("join", a, {"value", "d", "attribute"}, 1);
  const std::string separator = b.has(1) ? r.text(b[1]) : "";
  const AttributePath path(r, b[2]);
  Buffer out(r.heap());
  Iterator items(r.heap(), b[0]);
  bool first = true;
  for (Value item; items.next(item); first = false) {
    if (!first) out.append(separator);
    const Value part = path(r, item);
    out.append(part.is_string() ? std::string(part.text()) : r.text(part));
  }
  return r.heap().string(out.take());
}

Value filter_reverse(Renderer& r, Arguments& a) {
  const Bound b("reverse", a, {"value"}, 1);
  if (b[0].is_string()) return slice(r.heap(), b[0], Value(), Value(), Value::integer(-1));
  if (!iterable(b[0])) fail("argument must be iterable");
  if (b[0].is(Kind::generator)) {
    auto items = collect(r.heap(), b[0]);
    std::reverse(items.begin(), items.end());
    return r.heap().list(std::move(items));
  }
  auto items = std::make_shared<Iterator>(r.heap(), r.heap().list(reversed(r.heap(), b[0])));
  return r.heap().generator([items](Value& item) { return items->next(item); });
}

Value filter_unique(Renderer& r, Arguments& a) {
  const Bound b("unique", a, {"value", "case_sensitive", "attribute"}, 1);
  struct State {
    Key key;
    LazyIterator items;
    Ref<DictObject> seen;
  };
  auto state = std::make_shared<State>(
      State{{AttributePath(r, b[2]), b.flag(1, false)}, LazyIterator(r.heap(), b[0]), r.heap().make<DictObject>()});
  return r.heap().generator([&r, state](Value& item) {
    while (state->items.next(item)) {
      const Value key = state->key(r, item);
      hash_of(key);
      if (state->seen->find(key)) continue;
      r.heap().charge(3 * sizeof(Value));
      state->seen->bytes += 3 * sizeof(Value);
      state->seen->set(key, Value());
      return true;
    }
    return false;
  });
}

template <bool most>
Value filter_extreme(Renderer& r, Arguments& a) {
  const Bound b(most ? "max" : "min", a, {"value", "case_sensitive", "attribute"}, 1);
  const Key key{AttributePath(r, b[2]), b.flag(1, false)};
  Iterator items(r.heap(), b[0]);
  Value best;
  if (!items.next(best)) return r.heap().undefined("No aggregated item, sequence was empty.");
  Value best_key = key(r, best);
  for (Value item; items.next(item);) {
    Value item_key = key(r, item);
    if (!(most ? less(r.heap(), best_key, item_key, ">") : less(r.heap(), item_key, best_key))) continue;
    best = std::move(item);
    best_key = std::move(item_key);
  }
  return best;
}

Value filter_groupby(Renderer& r, Arguments& a) {
  const Bound b("groupby", a, {"value", "attribute", "default", "case_sensitive"}, 2);
  const bool case_sensitive = b.flag(3, false);
  Key key{AttributePath(r, b[1]), case_sensitive};
  if (b.has_value(2)) key.otherwise = b[2];
  Keyed items = keyed(r, b[0], key);
  sort_keyed(r, items, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size();) {
    size_t end = begin;
    std::vector<Value> members;
    for (; end < items.size() && equal(items[end].first, items[begin].first); ++end)
      members.push_back(items[end].second);
    const Value name = case_sensitive ? items[begin].first : key.path(r, items[begin].second, key.otherwise);
    const Value group = r.heap().tuple({name, r.heap().list(std::move(members))});
    group.as<ListObject>().grouped = true;
    groups.push_back(group);
    begin = std::max(end, begin + 1);
  }
  return r.heap().list(std::move(groups));
}

Value filter_batch(Renderer& r, Arguments& a) {
  const Bound b("batch", a, {"value", "linecount", "fill_with"}, 2);
  const int64_t size = b.integer(1, 0);
  auto items = std::make_shared<LazyIterator>(r.heap(), b[0]);
  auto ahead = std::make_shared<Value>(Value::missing());
  const Value fill = b.has(2) ? b[2] : Value();
  return r.heap().generator([&heap = r.heap(), items, ahead, fill, size](Value& out) {
    std::vector<Value> row;
    if (!ahead->is_missing()) row.push_back(std::exchange(*ahead, Value::missing()));
    for (Value item; items->next(item);) {
      if (static_cast<int64_t>(row.size()) == size) {
        *ahead = std::move(item);
        break;
      }
      row.push_back(std::move(item));
    }
    if (row.empty() && ahead->is_missing()) return false;
    if (!row.empty() && ahead->is_missing() && !fill.is_none() && size > static_cast<int64_t>(row.size())) {
      heap.check(static_cast<size_t>(size) * sizeof(Value));
      heap.spend(size);
      row.resize(static_cast<size_t>(size), fill);
    }
    out = heap.list(std::move(row));
    return true;
  });
}

Value filter_slice(Renderer& r, Arguments& a) {
  const Bound b("slice", a, {"value", "slices", "fill_with"}, 2);
  const auto items = collect(r.heap(), b[0]);
  const int64_t slices = b.integer(1, 0), n = static_cast<int64_t>(items.size());
  if (slices == 0) fail("integer division or modulo by zero");
  r.heap().spend(std::max<int64_t>(slices, 0));
  std::vector<Value> out;
  int64_t offset = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t begin = offset + i * (n / slices);
    if (i < n % slices) ++offset;
    std::vector<Value> part(items.begin() + begin, items.begin() + offset + (i + 1) * (n / slices));
    if (b.has_value(2) && i >= n % slices) part.push_back(b[2]);
    out.push_back(r.heap().list(std::move(part)));
  }
  auto iterator = std::make_shared<Iterator>(r.heap(), r.heap().list(std::move(out)));
  return r.heap().generator([iterator](Value& item) { return iterator->next(item); });
}

// A filter or test by name with its arguments after the value, for map, select and their kin.
struct Applied {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  Arguments with(const Value& value) const {
    Arguments a{{value}, named};
    a.positional.insert(a.positional.end(), positional.begin(), positional.end());
    return a;
  }
};

Value filter_map(Renderer& r, Arguments& a) {
  if (a.positional.empty()) fail("map needs a sequence");
  const Value source = a.positional[0];
  if (!truth(source)) return r.heap().generator([](Value&) { return false; });
  const auto items = std::make_shared<LazyIterator>(r.heap(), source);
  const auto attribute =
      std::find_if(a.named.begin(), a.named.end(), [](const auto& n) { return n.first == "attribute"; });
  if (a.positional.size() == 1 && attribute != a.named.end()) {
    Value otherwise = Value::missing();
    for (const auto& [name, value] : a.named) {
      if (name == "default" && !value.is_none()) otherwise = value;
      else if (name != "default" && name != "attribute") fail("Unexpected keyword argument " + quoted(name));
    }
    return r.heap().generator([&r, items, otherwise, path = AttributePath(r, attribute->second)](Value& out) {
      if (!items->next(out)) return false;
      out = path(r, out, otherwise);
      return true;
    });
  }
  if (a.positional.size() < 2) fail("map requires a filter argument");
  if (!a.positional[1].is_string()) fail("map requires the name of a filter");
  const FilterFunction filter = find_filter(a.positional[1].text());
  const std::string name(a.positional[1].text());
  Applied applied{{a.positional.begin() + 2, a.positional.end()}, a.named};
  return r.heap().generator([&r, items, filter, name, applied](Value& out) {
    if (!items->next(out)) return false;
    if (!filter) fail("there is no filter named '" + name + "'");
    Arguments arguments = applied.with(out);
    out = filter(r, arguments);
    return true;
  });
}

template <bool wanted, bool by_attribute>
Value filter_select(Renderer& r, Arguments& a) {
  if (a.positional.empty()) fail("the filter needs a sequence");
  const Value source = a.positional[0];
  if (!truth(source)) return r.heap().generator([](Value&) { return false; });
  constexpr size_t first = by_attribute ? 2 : 1;
  if (by_attribute && a.positional.size() < 2) fail("Missing parameter for attribute name");
  const AttributePath path = by_attribute ? AttributePath(r, a.positional[1]) : AttributePath();
  TestFunction test = nullptr;
  const bool named = a.positional.size() > first;
  std::string name;
  if (named) {
    if (!a.positional[first].is_string()) fail("the name of a test must be a string");
    name = a.positional[first].text();
    test = find_test(name);
  }
  Applied applied;
  if (named) applied = {{a.positional.begin() + first + 1, a.positional.end()}, a.named};
  const auto items = std::make_shared<LazyIterator>(r.heap(), source);
  return r.heap().generator([&r, items, path, test, named, name, applied](Value& out) {
    while (items->next(out)) {
      const Value value = path(r, out);
      if (named && !test) fail("there is no test named '" + name + "'");
      if (!named) {
        if (truth(value) == wanted) return true;
        continue;
      }
      Arguments arguments = applied.with(value);
      if (test(r, arguments) == wanted) return true;
    }
    return false;
  });
}

}  // namespace

std::span<const FilterEntry> sequence_filters() {
  static constexpr FilterEntry kFilters[] = {{"sort", filter_sort},
                                             {"dictsort", filter_dictsort},
                                             {"items", filter_items},
                                             {"first", filter_first},
                                             {"last", filter_last},
                                             {"length", filter_length},
                                             {"count", filter_length},
                                             {"list", filter_list},
                                             {"join", filter_join},
                                             {"reverse", filter_reverse},
                                             {"unique", filter_unique},
                                             {"min", filter_extreme<false>},
                                             {"max", filter_extreme<true>},
                                             {"groupby", filter_groupby},
                                             {"batch", filter_batch},
                                             {"slice", filter_slice},
                                             {"map", filter_map},
                                             {"select", filter_select<true, false>},
                                             {"reject", filter_select<false, false>},
                                             {"selectattr", filter_select<true, true>},
                                             {"rejectattr", filter_select<false, true>}};
  return kFilters;
}

}  // namespace drafthorse::jinja
