#include "text/jinja_scopes.h"

#include <initializer_list>
#include <unordered_map>
#include <unordered_set>

namespace drafthorse::jinja {
namespace {

// The names of one frame, or of one branch of an if statement in it (over `base`, the frame before the branch).
struct Symbols {
  const Symbols* parent = nullptr;
  const Symbols* base = nullptr;
  std::unordered_map<uint32_t, bool> references;  // name -> starts without a value
  std::unordered_set<uint32_t> stores;

  bool mentions_here(uint32_t name) const { return references.contains(name) || (base && base->mentions_here(name)); }
  bool mentions(uint32_t name) const { return mentions_here(name) || (parent && parent->mentions(name)); }
  bool stores_here(uint32_t name) const { return stores.contains(name) || (base && base->stores_here(name)); }

  void load(uint32_t name) {
    if (!mentions(name)) references[name] = false;
  }
  void store(uint32_t name) {
    stores.insert(name);
    if (!mentions_here(name)) references[name] = !(parent && parent->mentions(name));
  }
  void parameter(uint32_t name) {
    stores.insert(name);
    references[name] = false;
  }

  // After an if statement: a name that not every branch sets is looked up like any other.
  void merge(std::initializer_list<const Symbols*> branches) {
    std::unordered_map<uint32_t, size_t> count;
    for (const Symbols* branch : branches)
      for (const uint32_t name : branch->stores)
        if (!stores_here(name)) ++count[name];
    for (const Symbols* branch : branches) {
      for (const auto& [name, unset] : branch->references) references[name] = unset;
      stores.insert(branch->stores.begin(), branch->stores.end());
    }
    for (const auto& [name, times] : count)
      if (times != branches.size()) references[name] = false;
  }

  std::vector<uint32_t> unset() const {
    std::vector<uint32_t> names;
    for (const auto& [name, starts_unset] : references)
      if (starts_unset) names.push_back(name);
    return names;
  }
};

class Analysis {
 public:
  explicit Analysis(Template& source) : source_(source) {}

  void run() {
    Symbols root;
    visit(source_.body, root);
    source_.unset = root.unset();
    frames(source_.body, root);
  }

 private:
  // What a frame itself reads and sets, in the order of the source.
  void visit(const Body& body, Symbols& symbols) {
    for (const Statement* statement : body) visit(*statement, symbols);
  }

  void visit(const Statement& statement, Symbols& symbols) {
    switch (statement.action) {
      case Action::branch: return visit_branches(statement, 0, symbols);
      case Action::set: visit(statement.expression, symbols); return target(*statement.target, symbols);
      case Action::set_block: return target(*statement.target, symbols);
      case Action::macro: return symbols.store(statement.index);
      case Action::with:
        for (const Expression* value : statement.values) visit(value, symbols);
        return;
      default: visit(statement.expression, symbols);
    }
  }

  // An elif is an if statement of its own inside of the first one; all of them together are one branch of it.
  void visit_branches(const Statement& statement, size_t first, Symbols& symbols) {
    if (statement.conditions.empty()) return visit(statement.bodies[0], symbols);
    visit(statement.conditions[first], symbols);
    Symbols body{symbols.parent, &symbols, {}, {}}, others = body, otherwise = body;
    visit(statement.bodies[first], body);
    if (first == 0) {
      for (size_t i = 1; i < statement.conditions.size(); ++i) visit_branches(statement, i, others);
      visit(statement.bodies.back(), otherwise);
    }
    symbols.merge({&body, &others, &otherwise});
  }

  void target(const Expression& node, Symbols& symbols, bool parameter = false) {
    if (node.op == Op::namespace_attribute) return symbols.load(node.index);
    if (node.op == Op::name) return parameter ? symbols.parameter(node.index) : symbols.store(node.index);
    for (const Expression* part : node.parts) target(*part, symbols, parameter);
  }

  void visit(const Expression* node, Symbols& symbols) {
    if (!node) return;
    if (node->op == Op::name) symbols.load(node->index);
    for (const Expression* part : node->parts) visit(part, symbols);
    for (const Expression* argument : node->arguments.positional) visit(argument, symbols);
    for (const auto& argument : node->arguments.named) visit(argument.second, symbols);
    visit(node->arguments.list, symbols);
    visit(node->arguments.dict, symbols);
  }

  // The frames inside of a frame.
  void frames(const Body& body, const Symbols& symbols) {
    for (Statement* statement : body) frames(*statement, symbols);
  }

  void frames(Statement& statement, const Symbols& symbols) {
    Symbols inner{&symbols, nullptr, {}, {}};
    switch (statement.action) {
      case Action::branch:
        for (const Body& body : statement.bodies) frames(body, symbols);
        return;
      case Action::loop: {
        inner.parameter(source_.intern("loop"));
        target(*statement.target, inner, true);
        Symbols otherwise{&symbols, nullptr, {}, {}};
        visit(statement.bodies[1], otherwise);
        statement.else_unset = otherwise.unset();
        frames(statement.bodies[1], otherwise);
        break;
      }
      case Action::macro:
      case Action::call_block: return callable(statement.definition, symbols);
      case Action::with:
        for (const Expression* name : statement.targets) target(*name, inner, true);
        break;
      case Action::set_block:
      case Action::filter_block:
      case Action::scope: break;
      default: return;
    }
    visit(statement.bodies[0], inner);
    statement.unset = inner.unset();
    frames(statement.bodies[0], inner);
  }

  void callable(MacroDefinition& definition, const Symbols& symbols) {
    Symbols inner{&symbols, nullptr, {}, {}};
    for (const auto& parameter : definition.parameters) inner.parameter(parameter.second);
    for (const Expression* value : definition.defaults) visit(value, inner);
    visit(definition.body, inner);
    if (definition.uses_caller) inner.parameter(source_.intern("caller"));
    if (definition.uses_kwargs) inner.parameter(source_.intern("kwargs"));
    if (definition.uses_varargs) inner.parameter(source_.intern("varargs"));
    definition.unset = inner.unset();
    frames(definition.body, inner);
  }

  Template& source_;
};

}  // namespace

void find_unset_names(Template& source) { Analysis(source).run(); }

}  // namespace drafthorse::jinja
