#include "text/jinja_value.h"

#include <cmath>

#include "text/jinja_text.h"

namespace drafthorse::jinja {

void fail(std::string message) { throw Failure{std::move(message)}; }

void retire(Object* object) { object->heap->retire(object); }

int64_t StringObject::length() {
  if (length_ < 0) length_ = count_code_points(text);
  return length_;
}

Heap::~Heap() {
  while (changing_) {
    Ref<MutableObject> object(changing_);
    changing_ = object->following;
    if (changing_) changing_->previous = nullptr;
    object->previous = object->following = nullptr;
    object->clear();
  }
}

void Heap::link(MutableObject* object) {
  object->following = changing_;
  if (changing_) changing_->previous = object;
  changing_ = object;
}

void Heap::retire(Object* object) {
  dead_.push_back(object);
  if (deleting_) return;
  deleting_ = true;
  while (!dead_.empty()) {
    Object* next = dead_.back();
    dead_.pop_back();
    if (next->kind == Kind::name_space || next->kind == Kind::scope || next->kind == Kind::loop ||
        next->kind == Kind::cycler || next->kind == Kind::joiner) {
      auto* changing = static_cast<MutableObject*>(next);
      if (changing->previous) changing->previous->following = changing->following;
      if (changing->following) changing->following->previous = changing->previous;
      if (changing_ == changing) changing_ = changing->following;
    }
    used_ -= next->bytes;
    delete next;
  }
  deleting_ = false;
}

void Heap::check(size_t bytes) const {
  if (bytes > limits_.memory || used_ > limits_.memory - bytes)
    fail("the template needs more than its memory limit of " + std::to_string(limits_.memory >> 20) + " MiB");
}

void Heap::out_of_steps() const {
  fail("the template did not finish within its work limit of " + std::to_string(limits_.steps) + " steps");
}

Value Heap::string(std::string text, bool markup) {
  const size_t size = text.size();
  return make_sized<StringObject>(size, std::move(text), markup);
}

Value Heap::sequence(Kind kind, std::vector<Value> items) {
  const size_t size = items.size() * sizeof(Value);
  return make_sized<ListObject>(size, kind, std::move(items));
}

Value Heap::undefined(std::string message) { return make<UndefinedObject>(std::move(message)); }

Value Heap::generator(std::function<bool(Value&)> next) { return make<GeneratorObject>(std::move(next)); }

Value Heap::seal(const Ref<DictObject>& dict) {
  const size_t size = dict->entries.size() * (2 * sizeof(Value) + 8);
  spend(static_cast<int64_t>(dict->entries.size()));
  charge(size);
  dict->bytes += size;
  return dict;
}

Value* NamespaceObject::find(std::string_view name) {
  for (auto& [key, value] : attributes)
    if (key == name) return &value;
  return nullptr;
}

namespace {

constexpr size_t kLinearEntries = 8;

uint64_t hash_text(std::string_view text) { return std::hash<std::string_view>{}(text); }

}  // namespace

bool hashable(const Value& value) {
  if (value.is(Kind::list) || value.is(Kind::dict) || value.is(Kind::view)) return false;
  if (!value.is(Kind::tuple)) return true;
  for (const Value& item : value.as<ListObject>().items)
    if (!hashable(item)) return false;
  return true;
}

uint64_t hash_of(const Value& value) {
  switch (value.kind()) {
    case Kind::none: return 0x9e3779b97f4a7c15u;
    case Kind::undefined: return 0x51ed270b3f84d5b5u;
    case Kind::boolean:
    case Kind::integer: return static_cast<uint64_t>(value.as_int()) * 0xff51afd7ed558ccdu;
    case Kind::floating: {
      const double d = value.as_double();
      if (std::floor(d) == d && std::fabs(d) < 1e18)
        return static_cast<uint64_t>(static_cast<Int>(d)) * 0xff51afd7ed558ccdu;
      return std::hash<double>{}(d);
    }
    case Kind::string: value.object()->heap->spend_on(value.text().size()); return hash_text(value.text());
    case Kind::tuple: {
      uint64_t hash = 0x345678;
      for (const Value& item : value.as<ListObject>().items) hash = (hash ^ hash_of(item)) * 0x100000001b3u;
      return hash;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::view: fail(std::string("unhashable type: '") + type_name(value) + "'");
    default: return reinterpret_cast<uintptr_t>(value.object());
  }
}

const Value* DictObject::find(const Value& key) const {
  if (table_.empty()) {
    for (const auto& entry : entries)
      if (equal(entry.first, key)) return &entry.second;
    return nullptr;
  }
  const uint32_t slot = *slot_of(key, hash_of(key));
  return slot ? &entries[slot - 1].second : nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  if (table_.empty()) {
    for (const auto& entry : entries)
      if (entry.first.is_string() && entry.first.text() == key) return &entry.second;
    return nullptr;
  }
  const uint64_t mask = table_.size() - 1;
  for (uint64_t at = hash_text(key) & mask;; at = (at + 1) & mask) {
    if (!table_[at]) return nullptr;
    const auto& entry = entries[table_[at] - 1];
    heap->spend(1);
    if (entry.first.is_string() && entry.first.text() == key) return &entry.second;
  }
}

const uint32_t* DictObject::slot_of(const Value& key, uint64_t hash) const {
  const uint64_t mask = table_.size() - 1;
  for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
    if (!table_[at] || equal(entries[table_[at] - 1].first, key)) return &table_[at];
    heap->spend(1);  // a run of colliding keys is paid for
  }
}

void DictObject::rebuild() {
  size_t size = 32;
  while (size < entries.size() * 4) size *= 2;
  table_.assign(size, 0);
  for (size_t i = 0; i < entries.size(); ++i) {
    const uint64_t mask = size - 1;
    uint64_t at = hash_of(entries[i].first) & mask;
    while (table_[at]) {
      at = (at + 1) & mask;
      heap->spend(1);
    }
    table_[at] = static_cast<uint32_t>(i + 1);
  }
}

void DictObject::set(const Value& key, Value value) {
  const uint64_t hash = hash_of(key);
  if (const Value* found = find(key)) {
    *const_cast<Value*>(found) = std::move(value);
    return;
  }
  if (entries.size() % 1024 == 1023) heap->check(entries.size() * 4 * sizeof(Value));  // charged in seal()
  entries.emplace_back(key, std::move(value));
  if (entries.size() <= kLinearEntries) return;
  if (table_.size() < entries.size() * 2) return rebuild();
  *const_cast<uint32_t*>(slot_of(key, hash)) = static_cast<uint32_t>(entries.size());
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer: return "int";
    case Kind::floating: return "float";
    case Kind::string: return value.as<StringObject>().markup ? "Markup" : "str";
    case Kind::list: return "list";
    case Kind::tuple: return "tuple";
    case Kind::dict: return "dict";
    case Kind::range: return "range";
    case Kind::view: {
      const ViewOf what = value.as<ViewObject>().what;
      return what == ViewOf::keys ? "dict_keys" : what == ViewOf::values ? "dict_values" : "dict_items";
    }
    case Kind::generator: return "generator";
    case Kind::name_space: return "Namespace";
    case Kind::function: return "function";
    case Kind::method: return "method";
    case Kind::macro: return "Macro";
    case Kind::loop: return "LoopContext";
    case Kind::cycler: return "Cycler";
    case Kind::joiner: return "Joiner";
    default: return "Undefined";
  }
}

}  // namespace drafthorse::jinja
