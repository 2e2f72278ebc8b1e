#pragma once
// What a running template adds to the plain values: callables, loops, scopes, and the renderer that evaluates.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_operations.h"
#include "text/jinja_value.h"

namespace drafthorse::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Function = Value (*)(Renderer&, Arguments&);
using Method = Value (*)(Renderer&, const Value& self, Arguments&);

struct FunctionObject : Object {
  FunctionObject(std::string_view n, Function f) : Object(Kind::function), name(n), function(f) {}
  std::string_view name;
  Function function;
};

struct MethodObject : Object {
  MethodObject(std::string_view n, Value s, Method m) : Object(Kind::method), name(n), self(std::move(s)), method(m) {}
  std::string_view name;
  Value self;
  Method method;
};

// The variables of one frame: a loop's body, a macro's call, a block. The template's own frame is the renderer's.
struct Scope : MutableObject {
  explicit Scope(Ref<Scope> p) : MutableObject(Kind::scope), parent(std::move(p)) {}
  void clear() override {
    auto dropped = std::move(variables);
    variables.clear();
    parent = {};
  }
  void set(uint32_t name, Value value);
  void unset(const std::vector<uint32_t>& names);  // the names have no value here, whatever they have outside
  Ref<Scope> parent;
  std::vector<std::pair<uint32_t, Value>> variables;
};

struct MacroObject : Object {
  MacroObject(const MacroDefinition* d, Ref<Scope> s, std::vector<uint32_t> i)
      : Object(Kind::macro), definition(d), scope(std::move(s)), special(std::move(i)) {}
  const MacroDefinition* definition;
  Ref<Scope> scope;  // where it was defined
  std::vector<uint32_t> special;
};

// `loop`: drives the iteration of one for statement. It looks one item ahead only when it is asked to.
struct LoopObject : MutableObject {
  LoopObject(Heap& heap, const Statement* s, Ref<Scope> o, Value i, int d)
      : MutableObject(Kind::loop),
        statement(s),
        outer(std::move(o)),
        iterable(i),
        iterator(heap, std::move(i)),
        depth(d) {}
  void clear() override;
  bool advance();  // to the next item, if there is one
  bool has_next();
  int64_t length();
  const Statement* statement;
  Ref<Scope> outer;
  Value iterable;
  Iterator iterator;
  int depth;
  int64_t index = -1;  // of the current item
  Value previous = Value::missing(), current = Value::missing(), following = Value::missing();
  Value changed = Value::missing();  // what loop.changed saw last

 private:
  int64_t length_ = -1;
};
std::string loop_text(LoopObject& loop);

struct CyclerObject : MutableObject {
  explicit CyclerObject(std::vector<Value> i) : MutableObject(Kind::cycler), items(std::move(i)) {}
  void clear() override {
    auto dropped = std::move(items);
    items.clear();
  }
  std::vector<Value> items;
  size_t position = 0;
};

struct JoinerObject : MutableObject {
  explicit JoinerObject(Value s) : MutableObject(Kind::joiner), separator(std::move(s)) {}
  void clear() override { separator = Value(); }
  Value separator;
  bool used = false;
};

// Text under construction; its bytes are charged while it grows.
class Buffer {
 public:
  explicit Buffer(Heap& heap) : heap_(heap) {}
  Buffer(const Buffer&) = delete;
  ~Buffer() { heap_.release(text_.size()); }
  void append(std::string_view text);
  std::string take();

 private:
  Heap& heap_;
  std::string text_;
};

class Renderer {
 public:
  Renderer(const Template& source, const Limits& limits, int64_t now);
  Heap& heap() { return heap_; }
  int64_t now() const { return now_; }
  int line() const { return line_; }

  // Makes a variable of the template's context; a name that the template does not mention costs nothing.
  bool mentions(const std::string& name) const { return template_.name_index.contains(name); }
  void define(const std::string& name, Value value);
  std::string run();

  Value call(const Value& callable, Arguments& arguments);
  Value attribute(const Value& object, std::string_view name);  // object.name
  Value item(const Value& object, const Value& key);            // object[key]
  std::string text(const Value& value);                         // str(value)

 private:
  enum class Flow : uint8_t { next, leave_loop, next_item };
  struct Level {  // counts nested evaluations while it lives
    explicit Level(Renderer& r);
    ~Level() { --renderer.level_; }
    Renderer& renderer;
  };
  struct InScope;  // a scope that is current while it lives
  struct InBuffer;

  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_branch(const Statement& statement);
  void execute_loop(const Statement& statement);
  void run_loop(LoopObject& loop);
  void execute_with(const Statement& statement);
  void assign(const Expression& target, const Value& value);
  void define_macro(const Statement& statement);
  Value macro_value(const MacroDefinition& definition);
  void append_block(const Value& value);
  Value captured(const Statement& statement);  // its body's output in a scope of its own

  Value evaluate(const Expression& node);
  Value evaluate_name(const Expression& node);
  Value undefined_name(uint32_t index);
  Value evaluate_call(const Expression& node, const Value* caller = nullptr);
  Value evaluate_filter(const Expression& node, const Value* block_text = nullptr);
  Value evaluate_compare(const Expression& node);
  Value evaluate_container(const Expression& node);
  Value evaluate_concat(const Expression& node);
  Value evaluate_logic(const Expression& node);
  Value evaluate_arithmetic(const Expression& node);
  bool compare(Comparison comparison, const Value& a, const Value& b);
  void evaluate_arguments(const CallArguments& arguments, Arguments& out);
  Value call_macro(const MacroObject& macro, Arguments& arguments);
  void bind_macro(const MacroObject& macro, Arguments& arguments, Scope& scope);
  void bind_special(const MacroObject& macro, Arguments& arguments, bool caller_bound, Scope& scope);
  Value call_loop(LoopObject& loop, Arguments& arguments);

  const Template& template_;
  Heap heap_;
  int64_t now_;
  int line_ = 1;
  int level_ = 0;
  std::vector<Value> literals_;
  std::vector<Value> root_;  // variables of the template's own frame, by name index
  Ref<Scope> scope_;         // null: the template's own frame
  Buffer* buffer_ = nullptr;
};

// An attribute that Python objects of this kind have (a method, a namespace's attribute); missing otherwise.
Value find_attribute(Renderer& renderer, const Value& object, std::string_view name);

}  // namespace drafthorse::jinja
