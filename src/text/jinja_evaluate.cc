// Expressions (declared in jinja_runtime.h).
#include "text/jinja_library.h"
#include "text/jinja_print.h"
#include "text/jinja_runtime.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

std::string owner(const Value& object) {
  if (object.is_none()) return "None";
  return std::string(type_name(object)) + " object";
}

}  // namespace

Value Renderer::attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object);
  Value found = find_attribute(*this, object, name);
  if (!found.is_missing()) return found;
  if (object.is(Kind::dict)) {
    const Value* entry = object.as<DictObject>().find(name);
    if (entry) return *entry;
  }
  return heap_.undefined("'" + owner(object) + "' has no attribute " + quoted(name));
}

Value Renderer::item(const Value& object, const Value& key) {
  Value found = get_item(heap_, object, key);
  if (!found.is_missing()) return found;
  if (key.is_string()) {
    found = find_attribute(*this, object, key.text());
    if (!found.is_missing()) return found;
    return heap_.undefined("'" + owner(object) + "' has no attribute " + quoted(key.text()));
  }
  return heap_.undefined(owner(object) + " has no element " + representation(heap_, key));
}

Value Renderer::evaluate(const Expression& node) {
  const Level level(*this);
  line_ = node.line;
  switch (node.op) {
    case Op::literal: return literals_[node.index];
    case Op::name:
    case Op::namespace_attribute: return evaluate_name(node);
    case Op::list:
    case Op::tuple:
    case Op::dict: return evaluate_container(node);
    case Op::attribute: return attribute(evaluate(*node.parts[0]), node.text);
    case Op::item: {
      const Value object = evaluate(*node.parts[0]);
      return item(object, evaluate(*node.parts[1]));
    }
    case Op::slice: {
      Value bounds[3];
      const Value object = evaluate(*node.parts[0]);
      for (size_t i = 0; i < 3; ++i)
        if (node.parts[i + 1]) bounds[i] = evaluate(*node.parts[i + 1]);
      if (node.constant && (length(object) < 0 || object.is(Kind::dict)))
        return heap_.undefined(owner(object) + " has no slices");
      return slice(heap_, object, bounds[0], bounds[1], bounds[2]);
    }
    case Op::call: return evaluate_call(node);
    case Op::filter: return evaluate_filter(node);
    case Op::test: {
      Arguments arguments;
      arguments.positional.push_back(evaluate(*node.parts[0]));
      evaluate_arguments(node.arguments, arguments);
      if (!node.test) fail("there is no test named '" + node.text + "'");
      return Value::boolean(node.test(*this, arguments));
    }
    case Op::negative: return negate(heap_, evaluate(*node.parts[0]));
    case Op::positive: return positive(heap_, evaluate(*node.parts[0]));
    case Op::negation:
    case Op::logical_and:
    case Op::logical_or:
    case Op::conditional: return evaluate_logic(node);
    case Op::compare: return evaluate_compare(node);
    case Op::concat: return evaluate_concat(node);
    default: return evaluate_arithmetic(node);
  }
}

Value Renderer::evaluate_name(const Expression& node) {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    heap_.spend(1);
    for (const auto& [name, value] : scope->variables)
      if (name == node.index) return value.is_missing() ? undefined_name(node.index) : value;
  }
  if (!root_[node.index].is_missing()) return root_[node.index];
  return undefined_name(node.index);
}

Value Renderer::undefined_name(uint32_t index) {
  return heap_.undefined("'" + template_.names[index] + "' is undefined");
}

Value Renderer::evaluate_container(const Expression& node) {
  if (node.op == Op::dict) {
    const auto dict = heap_.make<DictObject>();
    for (size_t i = 0; i < node.parts.size(); i += 2) {
      const Value key = evaluate(*node.parts[i]);
      dict->set(key, evaluate(*node.parts[i + 1]));
    }
    return heap_.seal(dict);
  }
  std::vector<Value> items;
  items.reserve(node.parts.size());
  for (const Expression* part : node.parts) items.push_back(evaluate(*part));
  return heap_.sequence(node.op == Op::list ? Kind::list : Kind::tuple, std::move(items));
}

Value Renderer::evaluate_concat(const Expression& node) {
  Buffer text(heap_);
  for (const Expression* part : node.parts) {
    const Value value = evaluate(*part);
    if (value.is_string()) text.append(value.text());
    else text.append(to_text(heap_, value));
  }
  return heap_.string(text.take());
}

Value Renderer::evaluate_logic(const Expression& node) {
  Value first = evaluate(*node.parts[0]);
  const bool holds = truth(first);
  switch (node.op) {
    case Op::negation: return Value::boolean(!holds);
    case Op::logical_and: return holds ? evaluate(*node.parts[1]) : first;
    case Op::logical_or: return holds ? first : evaluate(*node.parts[1]);
    default: break;
  }
  if (holds) return evaluate(*node.parts[1]);
  if (node.parts[2]) return evaluate(*node.parts[2]);
  return heap_.undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Renderer::evaluate_arithmetic(const Expression& node) {
  const Value a = evaluate(*node.parts[0]);
  const Value b = evaluate(*node.parts[1]);
  switch (node.op) {
    case Op::add: return add(heap_, a, b);
    case Op::subtract: return subtract(heap_, a, b);
    case Op::multiply: return multiply(heap_, a, b);
    case Op::divide: return divide(heap_, a, b);
    case Op::floor_divide: return floor_divide(heap_, a, b);
    case Op::modulo: return modulo(heap_, a, b);
    default: return power(heap_, a, b);
  }
}

bool Renderer::compare(Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::equal: return equal(a, b);
    case Comparison::not_equal: return !equal(a, b);
    case Comparison::less: return less(heap_, a, b);
    case Comparison::less_equal: return less_equal(heap_, a, b);
    case Comparison::greater: return less(heap_, b, a, ">");
    case Comparison::greater_equal: return less_equal(heap_, b, a, ">=");
    case Comparison::in: return contains(heap_, b, a);
    case Comparison::not_in: return !contains(heap_, b, a);
  }
  return false;
}

Value Renderer::evaluate_compare(const Expression& node) {
  Value left = evaluate(*node.parts[0]);
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1]);
    if (!compare(node.comparisons[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

void Renderer::evaluate_arguments(const CallArguments& arguments, Arguments& out) {
  for (const Expression* argument : arguments.positional) out.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : arguments.named) out.named.emplace_back(name, evaluate(*argument));
  if (arguments.list)
    for (Value& item : collect(heap_, evaluate(*arguments.list))) out.positional.push_back(std::move(item));
  if (!arguments.dict) return;
  const Value dict = evaluate(*arguments.dict);
  if (!dict.is(Kind::dict)) fail("the argument after ** must be a mapping");
  for (const auto& [key, value] : dict.as<DictObject>().entries) {
    if (!key.is_string()) fail("keywords must be strings");
    for (const auto& named : out.named)
      if (named.first == key.text()) fail("the argument '" + named.first + "' is given twice");
    heap_.spend(static_cast<int64_t>(out.named.size()));
    out.named.emplace_back(std::string(key.text()), value);
  }
}

Value Renderer::evaluate_call(const Expression& node, const Value* caller) {
  const Expression& callee = *node.parts[0];
  Arguments arguments;
  if (callee.op == Op::attribute) {  // a method is called without making it a value first
    const Value self = evaluate(*callee.parts[0]);
    if (const MethodEntry* entry = find_method(self, callee.text)) {
      evaluate_arguments(node.arguments, arguments);
      if (caller) arguments.named.emplace_back("caller", *caller);
      return entry->method(*this, self, arguments);
    }
    const Value function = attribute(self, callee.text);
    evaluate_arguments(node.arguments, arguments);
    if (caller) arguments.named.emplace_back("caller", *caller);
    return call(function, arguments);
  }
  const Value function = evaluate(callee);
  evaluate_arguments(node.arguments, arguments);
  if (caller) arguments.named.emplace_back("caller", *caller);
  return call(function, arguments);
}

Value Renderer::call(const Value& callable, Arguments& arguments) {
  heap_.spend(1);
  switch (callable.kind()) {
    case Kind::function: return callable.as<FunctionObject>().function(*this, arguments);
    case Kind::method: return callable.as<MethodObject>().method(*this, callable.as<MethodObject>().self, arguments);
    case Kind::macro: return call_macro(callable.as<MacroObject>(), arguments);
    case Kind::loop: return call_loop(callable.as<LoopObject>(), arguments);
    case Kind::joiner: {
      auto& joiner = callable.as<JoinerObject>();
      if (!arguments.positional.empty() || !arguments.named.empty()) fail("a joiner takes no arguments");
      return std::exchange(joiner.used, true) ? joiner.separator : heap_.string("");
    }
    case Kind::undefined: fail_undefined(callable);
    default: fail(std::string("'") + type_name(callable) + "' object is not callable");
  }
}

Value Renderer::evaluate_filter(const Expression& node, const Value* block_text) {
  const Level level(*this);
  Arguments arguments;
  if (!node.parts[0]) arguments.positional.push_back(*block_text);
  else if (block_text) arguments.positional.push_back(evaluate_filter(*node.parts[0], block_text));
  else arguments.positional.push_back(evaluate(*node.parts[0]));
  evaluate_arguments(node.arguments, arguments);
  line_ = node.line;
  if (!node.filter) fail("there is no filter named '" + node.text + "'");
  return node.filter(*this, arguments);
}

}  // namespace drafthorse::jinja
