#include <algorithm>

#include "text/jinja_library.h"
#include "text/jinja_print.h"
#include "text/jinja_runtime.h"

// Statements (declared in jinja_runtime.h).
namespace drafthorse::jinja {

void Scope::set(uint32_t name, Value value) {
  for (auto& variable : variables)
    if (variable.first == name) {
      std::swap(variable.second, value);  // the old value goes last: it may own this scope's neighbours
      return;
    }
  variables.emplace_back(name, std::move(value));
}

void Scope::unset(const std::vector<uint32_t>& names) {
  for (const uint32_t name : names) set(name, Value::missing());
}

void Buffer::append(std::string_view text) {
  if (text.size() > heap_.limits().output || text_.size() > heap_.limits().output - text.size())
    fail("the template's output is longer than its limit of " + std::to_string(heap_.limits().output >> 20) + " MiB");
  heap_.spend(static_cast<int64_t>(text.size() / 32));
  heap_.charge(text.size());
  text_ += text;
}

std::string Buffer::take() {
  heap_.release(text_.size());
  return std::exchange(text_, {});
}

void LoopObject::clear() {
  const Value dropped[] = {iterable, previous, current, following, changed};
  iterator.drop();
  iterable = previous = current = following = changed = Value();
  outer = {};
}

bool LoopObject::has_next() {
  if (!following.is_missing()) return true;
  Value item;
  if (!iterator.next(item)) return false;
  following = std::move(item);
  return true;
}

bool LoopObject::advance() {
  if (!has_next()) return false;
  previous = std::exchange(current, std::exchange(following, Value::missing()));
  ++index;
  return true;
}

int64_t LoopObject::length() {
  if (length_ >= 0) return length_;
  length_ = jinja::length(iterable);
  if (length_ >= 0) return length_;
  std::vector<Value> rest;  // a generator: what is left of it is kept
  for (Value item; iterator.next(item);) {
    if (rest.size() % 1024 == 0) heap->check((rest.size() + 1024) * 2 * sizeof(Value));
    rest.push_back(std::move(item));
  }
  length_ = static_cast<int64_t>(rest.size()) + index + 1 + !following.is_missing();
  iterator = Iterator(*heap, heap->list(std::move(rest)));
  return length_;
}

std::string loop_text(LoopObject& loop) {
  return "<LoopContext " + std::to_string(loop.index + 1) + "/" + std::to_string(loop.length()) + ">";
}

Renderer::Level::Level(Renderer& r) : renderer(r) {
  if (renderer.level_ >= renderer.heap_.limits().depth) fail("the template recurses too deeply");
  ++renderer.level_;
  renderer.heap_.spend(1);
}

struct Renderer::InScope {
  InScope(Renderer& r, Ref<Scope> scope) : renderer(r), outer(std::exchange(r.scope_, std::move(scope))) {}
  ~InScope() { renderer.scope_ = std::move(outer); }
  Renderer& renderer;
  Ref<Scope> outer;
};

struct Renderer::InBuffer {
  explicit InBuffer(Renderer& r) : renderer(r), buffer(r.heap_), outer(std::exchange(r.buffer_, &buffer)) {}
  ~InBuffer() { renderer.buffer_ = outer; }
  Renderer& renderer;
  Buffer buffer;
  Buffer* outer;
};

Renderer::Renderer(const Template& source, const Limits& limits, int64_t now)
    : template_(source), heap_(limits), now_(now) {
  root_.assign(template_.names.size(), Value::missing());
  literals_.reserve(template_.literals.size());
  for (const Literal& literal : template_.literals) {
    switch (literal.type) {
      case Literal::Type::none: literals_.emplace_back(); break;
      case Literal::Type::boolean: literals_.push_back(Value::boolean(literal.boolean)); break;
      case Literal::Type::integer: literals_.push_back(Value::integer(literal.integer)); break;
      case Literal::Type::floating: literals_.push_back(Value::floating(literal.floating)); break;
      case Literal::Type::string: literals_.push_back(heap_.string(literal.string)); break;
    }
  }
  define_globals(*this);
}

void Renderer::define(const std::string& name, Value value) {
  const auto found = template_.name_index.find(name);
  if (found != template_.name_index.end()) root_[found->second] = std::move(value);
}

std::string Renderer::text(const Value& value) { return to_text(heap_, value); }

std::string Renderer::run() {
  for (const uint32_t name : template_.unset) root_[name] = Value::missing();
  InBuffer output(*this);
  execute(template_.body);
  return output.buffer.take();
}

Renderer::Flow Renderer::execute(const Body& body) {
  for (const Statement* statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Renderer::Flow Renderer::execute(const Statement& statement) {
  const Level level(*this);
  line_ = statement.line;
  switch (statement.action) {
    case Action::text: buffer_->append(literals_[statement.index].text()); break;
    case Action::print: {
      const Value value = evaluate(*statement.expression);
      if (value.is_string()) buffer_->append(value.text());
      else if (!value.is_undefined()) buffer_->append(to_text(heap_, value));
      break;
    }
    case Action::branch: return execute_branch(statement);
    case Action::loop: execute_loop(statement); break;
    case Action::set: assign(*statement.target, evaluate(*statement.expression)); break;
    case Action::set_block: {
      Value value = captured(statement);
      if (statement.expression) value = evaluate_filter(*statement.expression, &value);
      assign(*statement.target, value);
      break;
    }
    case Action::macro: define_macro(statement); break;
    case Action::call_block: {
      const Value caller = macro_value(statement.definition);
      append_block(evaluate_call(*statement.expression, &caller));
      break;
    }
    case Action::filter_block: {
      const Value value = captured(statement);
      append_block(evaluate_filter(*statement.expression, &value));
      break;
    }
    case Action::with: execute_with(statement); break;
    case Action::scope: {
      const InScope inside(*this, heap_.make<Scope>(scope_));
      scope_->unset(statement.unset);
      return execute(statement.bodies[0]);
    }
    case Action::loop_break: return Flow::leave_loop;
    case Action::loop_continue: return Flow::next_item;
  }
  return Flow::next;
}

// What a call or filter block makes; unlike a printed value it is not converted.
void Renderer::append_block(const Value& value) {
  if (!value.is_string()) fail(std::string("a block must make a string, not ") + type_name(value));
  buffer_->append(value.text());
}

Value Renderer::captured(const Statement& statement) {
  const InScope inside(*this, heap_.make<Scope>(scope_));
  scope_->unset(statement.unset);
  InBuffer output(*this);
  execute(statement.bodies[0]);
  return heap_.string(output.buffer.take());
}

Renderer::Flow Renderer::execute_branch(const Statement& statement) {
  for (size_t i = 0; i < statement.conditions.size(); ++i)
    if (truth(evaluate(*statement.conditions[i]))) return execute(statement.bodies[i]);
  return execute(statement.bodies.back());
}

void Renderer::execute_loop(const Statement& statement) {
  const Value iterable = evaluate(*statement.expression);
  const auto loop = heap_.make<LoopObject>(heap_, &statement, scope_, iterable, 0);
  run_loop(*loop);
}

void Renderer::run_loop(LoopObject& loop) {
  const Statement& statement = *loop.statement;
  if (statement.condition) {
    auto source = std::make_shared<Iterator>(loop.iterator);
    const Ref<Scope> outer = loop.outer;
    // Items are tested one by one, as the loop asks for them.
    loop.iterable = heap_.generator([this, source, outer, &statement](Value& item) {
      const InScope inside(*this, heap_.make<Scope>(outer));
      while (source->next(item)) {
        assign(*statement.target, item);
        if (truth(evaluate(*statement.condition))) return true;
      }
      return false;
    });
    loop.iterator = Iterator(heap_, loop.iterable);
  }
  static const std::string kLoop = "loop";
  const auto name = template_.name_index.find(kLoop);
  Ref<Scope> scope;
  bool completed = false;  // an iteration: jinja2 runs the else part when none got to its end
  while (loop.advance()) {
    heap_.spend(1);
    if (!scope || scope->references > 1) scope = heap_.make<Scope>(loop.outer);
    scope->variables.clear();
    scope->unset(statement.unset);
    const InScope inside(*this, scope);
    if (name != template_.name_index.end()) scope->set(name->second, Ref<LoopObject>(&loop));
    assign(*statement.target, loop.current);
    const Flow flow = execute(statement.bodies[0]);
    completed |= flow == Flow::next;
    if (flow == Flow::leave_loop) break;
  }
  if (completed) return;
  const InScope inside(*this, heap_.make<Scope>(loop.outer));
  scope_->unset(statement.else_unset);
  execute(statement.bodies[1]);
}

void Renderer::execute_with(const Statement& statement) {
  const auto scope = heap_.make<Scope>(scope_);
  std::vector<Value> values;
  for (const Expression* value : statement.values) values.push_back(evaluate(*value));
  const InScope inside(*this, scope);
  scope->unset(statement.unset);
  for (size_t i = 0; i < values.size(); ++i) assign(*statement.targets[i], values[i]);
  execute(statement.bodies[0]);
}

void Renderer::assign(const Expression& target, const Value& value) {
  if (target.op == Op::name) {
    if (scope_) scope_->set(target.index, value);
    else root_[target.index] = value;
    return;
  }
  if (target.op == Op::namespace_attribute) {
    const Value object = evaluate_name(target);
    if (!object.is(Kind::name_space)) fail("cannot assign attribute on non-namespace object");
    auto& attributes = object.as<NamespaceObject>();
    if (Value* found = attributes.find(target.text)) {
      *found = value;
    } else {
      heap_.charge(target.text.size() + 64);
      attributes.bytes += target.text.size() + 64;
      attributes.attributes.emplace_back(target.text, value);
    }
    return;
  }
  const std::vector<Value> items = collect(heap_, value);
  if (items.size() > target.parts.size())
    fail("too many values to unpack (expected " + std::to_string(target.parts.size()) + ")");
  if (items.size() < target.parts.size())
    fail("not enough values to unpack (expected " + std::to_string(target.parts.size()) + ", got " +
         std::to_string(items.size()) + ")");
  for (size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i]);
}

Value Renderer::macro_value(const MacroDefinition& definition) {
  std::vector<uint32_t> special;
  for (const char* name : {"caller", "kwargs", "varargs"}) {
    const auto found = template_.name_index.find(name);
    special.push_back(found == template_.name_index.end() ? UINT32_MAX : found->second);
  }
  return heap_.make<MacroObject>(&definition, scope_, std::move(special));
}

void Renderer::define_macro(const Statement& statement) {
  Value macro = macro_value(statement.definition);
  if (scope_) scope_->set(statement.index, std::move(macro));
  else root_[statement.index] = std::move(macro);
}

Value Renderer::call_macro(const MacroObject& macro, Arguments& arguments) {
  const Level level(*this);
  const int line = line_;
  const auto scope = heap_.make<Scope>(macro.scope);
  InBuffer output(*this);
  const InScope inside(*this, scope);
  scope->unset(macro.definition->unset);
  bind_macro(macro, arguments, *scope);
  execute(macro.definition->body);
  line_ = line;
  return heap_.string(output.buffer.take());
}

void Renderer::bind_macro(const MacroObject& macro, Arguments& arguments, Scope& scope) {
  const MacroDefinition& definition = *macro.definition;
  const size_t count = definition.parameters.size(), given = std::min(count, arguments.positional.size());
  std::vector<bool> missing(count, false);
  bool caller_bound = false;
  for (size_t i = 0; i < count; ++i) {
    const auto& [name, index] = definition.parameters[i];
    caller_bound |= name == "caller";
    if (i < given) {
      scope.set(index, arguments.positional[i]);
      continue;
    }
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&name = name](const auto& a) { return a.first == name; });
    missing[i] = found == arguments.named.end();
    scope.set(index, missing[i] ? heap_.undefined("parameter '" + name + "' was not provided") : found->second);
    if (!missing[i]) arguments.named.erase(found);
  }
  bind_special(macro, arguments, caller_bound, scope);
  const size_t first_default = count - definition.defaults.size();
  for (size_t i = first_default; i < count; ++i)
    if (missing[i]) scope.set(definition.parameters[i].second, evaluate(*definition.defaults[i - first_default]));
}

void Renderer::bind_special(const MacroObject& macro, Arguments& arguments, bool caller_bound, Scope& scope) {
  const MacroDefinition& definition = *macro.definition;
  const size_t count = definition.parameters.size();
  auto& named = arguments.named;
  if (definition.uses_caller && !caller_bound) {
    const auto found = std::find_if(named.begin(), named.end(), [](const auto& a) { return a.first == "caller"; });
    scope.set(macro.special[0], found == named.end() ? heap_.undefined("No caller defined") : found->second);
    if (found != named.end()) named.erase(found);
  }
  if (definition.uses_kwargs) {
    const auto rest = heap_.make<DictObject>();
    for (auto& [name, value] : named) rest->set(heap_.string(name), value);
    scope.set(macro.special[1], heap_.seal(rest));
  } else if (!named.empty()) {
    fail("macro '" + definition.name + "' takes no keyword argument '" + named[0].first + "'");
  }
  if (definition.uses_varargs) {
    std::vector<Value> rest(
        arguments.positional.begin() + static_cast<long>(std::min(count, arguments.positional.size())),
        arguments.positional.end());
    scope.set(macro.special[2], heap_.tuple(std::move(rest)));
  } else if (arguments.positional.size() > count) {
    fail("macro '" + definition.name + "' takes not more than " + std::to_string(count) + " argument(s)");
  }
}

Value Renderer::call_loop(LoopObject& loop, Arguments& arguments) {
  const Level level(*this);
  if (!loop.statement->recursive) fail("the loop must have the 'recursive' marker to be called recursively");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("loop() takes one argument");
  const auto inner = heap_.make<LoopObject>(heap_, loop.statement, loop.outer, arguments.positional[0], loop.depth + 1);
  InBuffer output(*this);
  run_loop(*inner);
  return heap_.string(output.buffer.take());
}

}  // namespace drafthorse::jinja
