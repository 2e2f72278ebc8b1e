#pragma once
// A parsed template: plain data, shared between renders.

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja_value.h"

namespace drafthorse::jinja {

class Renderer;
struct Arguments;
using FilterFunction = Value (*)(Renderer&, Arguments&);
using TestFunction = bool (*)(Renderer&, Arguments&);

// clang-format off
enum class Op : uint8_t {
  literal,      // index
  name,         // index
  list, tuple,  // parts
  dict,         // parts: key, value, key, value, …
  attribute,    // parts[0].text
  item,         // parts[0][parts[1]]
  slice,        // parts[0][parts[1]:parts[2]:parts[3]], any bound may be null
  call,         // parts[0](arguments)
  filter,       // parts[0] | text(arguments); null in a filter block
  test,         // parts[0] is text(arguments)
  negative, positive, negation,
  logical_and, logical_or,
  conditional,  // parts[1] if parts[0] else parts[2] (may be null)
  compare,      // parts[0] comparisons[0] parts[1] …
  concat,       // parts
  add, subtract, multiply, divide, floor_divide, modulo, power,
  namespace_attribute,  // target of set: name index, text
};
// clang-format on

enum class Comparison : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

struct Expression;

struct CallArguments {
  std::vector<Expression*> positional;
  std::vector<std::pair<std::string, Expression*>> named;
  Expression* list = nullptr;  // *list
  Expression* dict = nullptr;  // **dict
};

struct Expression {
  Op op;
  int line;
  int depth = 1;  // height of the tree below
  uint32_t index = 0;
  bool constant = false;  // made of literals: jinja2 folds it, and a slice of it that fails is undefined
  std::string text;
  std::vector<Expression*> parts;
  std::vector<Comparison> comparisons;
  CallArguments arguments;
  FilterFunction filter = nullptr;  // null: unknown, an error when it is reached
  TestFunction test = nullptr;
};

struct Statement;
using Body = std::vector<Statement*>;

// What a macro or a call block makes callable.
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<std::string, uint32_t>> parameters;  // name, name index
  std::vector<Expression*> defaults;                         // of the last parameters
  Body body;
  std::vector<uint32_t> unset;  // names that start without a value (jinja_scopes.h)
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
};

enum class Action : uint8_t {
  text,          // literal index
  print,         // expression
  branch,        // conditions[i] -> bodies[i], otherwise the last body; conditions may be empty
  loop,          // for target in expression if condition: bodies[0], else bodies[1]
  set,           // target = expression
  set_block,     // target = filter expression (may be null) of bodies[0]
  macro,         // definition, bound to name `index`
  call_block,    // expression is the call; definition is the caller
  filter_block,  // expression over the text of bodies[0]
  with,          // targets = values, bodies[0]
  scope,         // bodies[0] with names of its own
  loop_break,
  loop_continue,
};

struct Statement {
  Action action;
  int line;
  uint32_t index = 0;
  bool recursive = false;
  Expression* target = nullptr;
  Expression* expression = nullptr;
  Expression* condition = nullptr;
  std::vector<Expression*> targets, values;
  std::vector<Expression*> conditions;
  std::vector<Body> bodies;
  std::vector<uint32_t> unset, else_unset;  // names that bodies[0] and a loop's bodies[1] start without
  MacroDefinition definition;
};

struct Literal {
  enum class Type : uint8_t { none, boolean, integer, floating, string } type;
  bool boolean = false;
  Int integer = 0;
  double floating = 0;
  std::string string = {};
};

struct Template {
  std::deque<Expression> expressions;  // owns every node, so that destruction does not recurse
  std::deque<Statement> statements;
  std::vector<Literal> literals;
  std::vector<std::string> names;
  std::unordered_map<std::string, uint32_t> name_index;
  Body body;
  std::vector<uint32_t> unset;
  uint32_t intern(const std::string& name) {
    const auto [found, added] = name_index.emplace(name, static_cast<uint32_t>(names.size()));
    if (added) names.push_back(name);
    return found->second;
  }
};

}  // namespace drafthorse::jinja
