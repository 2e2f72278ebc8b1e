#pragma once
// The values a template computes with: Python's, as far as a template can see them. Values of one render live on one
// Heap, which bounds memory and work; they are reference counted and never leave the thread that renders.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drafthorse::jinja {

// Thrown inside the template engine and caught where it is entered (parse and render return Result): evaluation is
// deeply recursive and every operation of it can fail.
struct Failure {
  std::string message;
};
[[noreturn]] void fail(std::string message);

using Int = __int128;  // Python's integers have no bound; beyond 127 bits is an error

// clang-format off
enum class Kind : uint8_t {
  missing,  // no value at all; never visible to a template
  undefined, none, boolean, integer, floating, string, list, tuple, dict, range, view, generator,
  name_space, function, method, macro, loop, cycler, joiner, scope,
};
// clang-format on

class Heap;

struct Object {
  explicit Object(Kind k) : kind(k) {}
  Object(const Object&) = delete;
  virtual ~Object() = default;
  Heap* heap = nullptr;
  size_t bytes = 0;  // charged to the heap
  uint32_t references = 0;
  Kind kind;
};

void retire(Object* object);

template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_) ++object_->references;
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ && --object_->references == 0) retire(object_);
  }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  T* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

class Value {
 public:
  Value() = default;  // None
  template <class T>
  Value(const Ref<T>& object) : kind_(object->kind), object_(object.get()) {
    ++object_->references;
  }
  static Value missing() {
    Value v;
    v.kind_ = Kind::missing;
    return v;
  }
  static Value boolean(bool b) {
    Value v;
    v.kind_ = Kind::boolean;
    v.bool_ = b;
    return v;
  }
  static Value integer(Int i) {
    Value v;
    v.kind_ = Kind::integer;
    v.int_ = i;
    return v;
  }
  static Value floating(double d) {
    Value v;
    v.kind_ = Kind::floating;
    v.double_ = d;
    return v;
  }
  Value(const Value& other) {
    copy(other);
    if (has_object()) ++object_->references;
  }
  Value(Value&& other) noexcept {
    copy(other);
    other.kind_ = Kind::none;
  }
  Value& operator=(Value other) noexcept {
    swap(other);
    return *this;
  }
  ~Value() {
    if (has_object() && --object_->references == 0) retire(object_);
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::missing; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_integral() || kind_ == Kind::floating; }
  bool as_bool() const { return bool_; }
  Int as_int() const { return kind_ == Kind::boolean ? Int{bool_} : int_; }  // integer or boolean
  double as_double() const { return kind_ == Kind::floating ? double_ : static_cast<double>(as_int()); }
  Object* object() const { return object_; }
  template <class T>
  T& as() const {
    return *static_cast<T*>(object_);
  }
  std::string_view text() const;  // of a string

 private:
  bool has_object() const { return kind_ == Kind::undefined || kind_ >= Kind::string; }
  void copy(const Value& other) noexcept {
    kind_ = other.kind_;
    int_ = other.int_;
    if (has_object()) object_ = other.object_;
  }
  void swap(Value& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(int_, other.int_);
  }
  Kind kind_ = Kind::none;
  union {
    Int int_ = 0;
    bool bool_;
    double double_;
    Object* object_;
  };
};

struct StringObject : Object {
  StringObject(std::string t, bool m) : Object(Kind::string), text(std::move(t)), markup(m) {}
  int64_t length();  // code points
  std::string text;  // valid UTF-8
  bool markup;       // marked safe (markupsafe.Markup)
 private:
  int64_t length_ = -1;
};

struct UndefinedObject : Object {
  UndefinedObject(std::string m) : Object(Kind::undefined), message(std::move(m)) {}
  std::string message;
};

struct ListObject : Object {  // list or tuple
  ListObject(Kind k, std::vector<Value> i) : Object(k), items(std::move(i)) {}
  std::vector<Value> items;
  bool grouped = false;  // the pair that groupby makes, with attributes grouper and list
};

// Insertion-ordered. Filled while it is built, constant afterwards.
struct DictObject : Object {
  DictObject() : Object(Kind::dict) {}
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);
  std::vector<std::pair<Value, Value>> entries;

 private:
  const uint32_t* slot_of(const Value& key, uint64_t hash) const;
  void rebuild();
  std::vector<uint32_t> table_;  // open addressing, entry + 1; empty while there are few entries
};

struct RangeObject : Object {
  RangeObject(Int a, Int b, Int s, Int n) : Object(Kind::range), start(a), stop(b), step(s), count(n) {}
  Int start, stop, step, count;
};

enum class ViewOf : uint8_t { keys, values, items };
struct ViewObject : Object {
  ViewObject(Ref<DictObject> d, ViewOf w) : Object(Kind::view), dict(std::move(d)), what(w) {}
  Ref<DictObject> dict;
  ViewOf what;
};

// A one-pass sequence: next writes the next item and says whether there was one.
struct GeneratorObject : Object {
  explicit GeneratorObject(std::function<bool(Value&)> n) : Object(Kind::generator), next(std::move(n)) {}
  std::function<bool(Value&)> next;
};

// Objects that change after they are made. Every reference cycle goes through one; the heap clears them at its end.
struct MutableObject : Object {
  using Object::Object;
  virtual void clear() = 0;
  MutableObject *previous = nullptr, *following = nullptr;
};

struct NamespaceObject : MutableObject {
  NamespaceObject() : MutableObject(Kind::name_space) {}
  void clear() override {
    auto dropped = std::move(attributes);
    attributes.clear();
  }
  Value* find(std::string_view name);
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Limits {
  size_t memory = size_t{256} << 20;  // bytes alive at one time
  size_t output = size_t{64} << 20;   // bytes of text in one buffer
  int64_t steps = 20'000'000;         // evaluated nodes, iterations and 32-byte pieces of text
  int depth = 800;                    // nested evaluations
};

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  ~Heap();

  template <class T, class... Args>
  Ref<T> make_sized(size_t payload, Args&&... args) {
    spend(1 + static_cast<int64_t>(payload / 32));
    charge(sizeof(T) + payload);
    T* object = new T(std::forward<Args>(args)...);
    object->heap = this;
    object->bytes = sizeof(T) + payload;
    if constexpr (std::is_base_of_v<MutableObject, T>) link(object);
    return Ref<T>(object);
  }
  template <class T, class... Args>
  Ref<T> make(Args&&... args) {
    return make_sized<T>(0, std::forward<Args>(args)...);
  }

  Value string(std::string text, bool markup = false);
  Value list(std::vector<Value> items) { return sequence(Kind::list, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::tuple, std::move(items)); }
  Value sequence(Kind kind, std::vector<Value> items);
  Value undefined(std::string message);
  Value generator(std::function<bool(Value&)> next);
  // A dict's entries are charged when it is complete.
  Value seal(const Ref<DictObject>& dict);

  // Fail when `bytes` more would exceed the memory limit; charge() also keeps them.
  void check(size_t bytes) const;
  void charge(size_t bytes) {
    check(bytes);
    used_ += bytes;
  }
  void release(size_t bytes) { used_ -= bytes; }
  void spend_on(size_t bytes, size_t bytes_per_step = 32) { spend(static_cast<int64_t>(bytes / bytes_per_step)); }
  void spend(int64_t steps) {
    if ((steps_ += steps) > limits_.steps) out_of_steps();
  }
  const Limits& limits() const { return limits_; }
  void retire(Object* object);

 private:
  [[noreturn]] void out_of_steps() const;
  void link(MutableObject* object);
  Limits limits_;
  size_t used_ = 0;
  int64_t steps_ = 0;
  std::vector<Object*> dead_;  // waiting to be deleted: chains of objects must not recurse
  bool deleting_ = false;
  MutableObject* changing_ = nullptr;
};

inline std::string_view Value::text() const { return as<StringObject>().text; }

// Python's hash as far as dictionaries need it; fails for lists and dictionaries.
uint64_t hash_of(const Value& value);
bool hashable(const Value& value);
bool equal(const Value& a, const Value& b);
const char* type_name(const Value& value);  // as Python names it in messages: "str", "dict", …

}  // namespace drafthorse::jinja
