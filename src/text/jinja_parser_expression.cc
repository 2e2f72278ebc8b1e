#include <algorithm>
#include <cstdlib>

#include "text/jinja_library.h"
#include "text/jinja_parser.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

constexpr int kMaxDepth = 300;  // of an expression tree

bool in(std::initializer_list<std::string_view> names, const Token& token) {
  return token.kind == TokenKind::name && std::find(names.begin(), names.end(), token.text) != names.end();
}

}  // namespace

Expression* Parser::expression_node(Op op, int line, std::vector<Expression*> parts) {
  Expression& node = template_.expressions.emplace_back();
  node.op = op;
  node.line = line;
  node.constant =
      op == Op::literal || op == Op::list || op == Op::tuple || op == Op::dict || op == Op::slice || op == Op::negative;
  for (const Expression* part : parts) {
    if (!part) continue;
    node.depth = std::max(node.depth, part->depth + 1);
    node.constant = node.constant && part->constant;
  }
  if (node.depth > kMaxDepth) fail("an expression is nested too deeply");
  node.parts = std::move(parts);
  return &node;
}

Expression* Parser::literal(Literal value, int line) {
  Expression* node = expression_node(Op::literal, line);
  node->index = static_cast<uint32_t>(template_.literals.size());
  template_.literals.push_back(std::move(value));
  return node;
}

Expression* Parser::tuple(bool conditional, std::initializer_list<std::string_view> ends, bool parenthesised,
                          bool simple) {
  const int at = line();
  std::vector<Expression*> parts;
  bool is_tuple = false;
  while (true) {
    const TokenKind kind = current().kind;
    if (kind == TokenKind::variable_end || kind == TokenKind::block_end || at_symbol(")") || in(ends, current())) break;
    parts.push_back(simple ? primary() : expression(conditional));
    if (!skip_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !parts.empty()) return parts[0];
  if (!is_tuple && !parenthesised) fail_unexpected("an expression");
  return expression_node(Op::tuple, at, std::move(parts));
}

Expression* Parser::expression(bool conditional) {
  const Nested nested(*this);
  if (!conditional) return logical_or();
  int at = line();
  const size_t unknown = unknown_.size();
  Expression* node = logical_or();
  while (skip_name("if")) {
    unknown_.resize(unknown, Token{});  // what was read may never be evaluated
    ++conditional_;
    Expression* condition = logical_or();
    Expression* otherwise = skip_name("else") ? expression() : nullptr;
    --conditional_;
    node = expression_node(Op::conditional, at, {condition, node, otherwise});
    at = line();
  }
  return node;
}

Expression* Parser::logical_or() {
  Expression* node = logical_and();
  for (int at = line(); skip_name("or"); at = line()) node = expression_node(Op::logical_or, at, {node, logical_and()});
  return node;
}

Expression* Parser::logical_and() {
  Expression* node = logical_not();
  for (int at = line(); skip_name("and"); at = line())
    node = expression_node(Op::logical_and, at, {node, logical_not()});
  return node;
}

Expression* Parser::logical_not() {
  const Nested nested(*this);
  const int at = line();
  if (skip_name("not")) return expression_node(Op::negation, at, {logical_not()});
  return comparison();
}

Expression* Parser::comparison() {
  static const std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::equal},      {"!=", Comparison::not_equal}, {"<", Comparison::less},
      {"<=", Comparison::less_equal}, {">", Comparison::greater},    {">=", Comparison::greater_equal}};
  const int at = line();
  std::vector<Expression*> parts = {sum()};
  std::vector<Comparison> comparisons;
  while (true) {
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [this](const auto& o) { return at_symbol(o.first); });
    if (found != std::end(kOperators)) {
      advance();
      comparisons.push_back(found->second);
    } else if (skip_name("in")) {
      comparisons.push_back(Comparison::in);
    } else if (at_name("not") && ahead().is(TokenKind::name, "in")) {
      advance();
      advance();
      comparisons.push_back(Comparison::not_in);
    } else {
      break;
    }
    parts.push_back(sum());
  }
  if (comparisons.empty()) return parts[0];
  Expression* node = expression_node(Op::compare, at, std::move(parts));
  node->comparisons = std::move(comparisons);
  return node;
}

Expression* Parser::sum() {
  Expression* node = concatenation();
  while (at_symbol("+") || at_symbol("-")) {
    const int at = line();
    const Op op = at_symbol("+") ? Op::add : Op::subtract;
    advance();
    node = expression_node(op, at, {node, concatenation()});
  }
  return node;
}

Expression* Parser::concatenation() {
  const int at = line();
  std::vector<Expression*> parts = {product()};
  while (skip_symbol("~")) parts.push_back(product());
  return parts.size() == 1 ? parts[0] : expression_node(Op::concat, at, std::move(parts));
}

Expression* Parser::product() {
  Expression* node = power();
  while (at_symbol("*") || at_symbol("/") || at_symbol("//") || at_symbol("%")) {
    const int at = line();
    const Op op = at_symbol("*")    ? Op::multiply
                  : at_symbol("/")  ? Op::divide
                  : at_symbol("//") ? Op::floor_divide
                                    : Op::modulo;
    advance();
    node = expression_node(op, at, {node, power()});
  }
  return node;
}

Expression* Parser::power() {
  Expression* node = unary(true);
  for (int at = line(); skip_symbol("**"); at = line()) node = expression_node(Op::power, at, {node, unary(true)});
  return node;
}

Expression* Parser::unary(bool with_filters) {
  const Nested nested(*this);
  const int at = line();
  Expression* node;
  if (skip_symbol("-")) node = expression_node(Op::negative, at, {unary(false)});
  else if (skip_symbol("+")) node = expression_node(Op::positive, at, {unary(false)});
  else node = primary();
  node = postfix(node);
  return with_filters ? filters_and_tests(node) : node;
}

Expression* Parser::primary() {
  const Token& token = current();
  const int at = token.line;
  switch (token.kind) {
    case TokenKind::name: return name();
    case TokenKind::string: {
      std::string text;
      for (; current().kind == TokenKind::string; advance()) text += current().text;
      return literal({.type = Literal::Type::string, .string = std::move(text)}, at);
    }
    case TokenKind::integer: {
      const auto value = parse_int(token.text, 0);
      if (!value) fail("the integer " + token.text + " is too large");
      advance();
      return literal({.type = Literal::Type::integer, .integer = *value}, at);
    }
    case TokenKind::floating: {
      const double value = std::strtod(token.text.c_str(), nullptr);
      advance();
      return literal({.type = Literal::Type::floating, .floating = value}, at);
    }
    default: break;
  }
  if (at_symbol("[")) return list();
  if (at_symbol("{")) return dict();
  if (!skip_symbol("(")) fail_unexpected("an expression");
  Expression* node = tuple(true, {}, true);
  expect_symbol(")");
  return node;
}

Expression* Parser::name() {
  const int at = line();
  const std::string text = expect_identifier();
  if (text == "true" || text == "True" || text == "false" || text == "False")
    return literal({.type = Literal::Type::boolean, .boolean = text == "true" || text == "True"}, at);
  if (text == "none" || text == "None") return literal({.type = Literal::Type::none}, at);
  for (MacroDefinition* callable : callables_) {
    callable->uses_caller |= text == "caller";
    callable->uses_kwargs |= text == "kwargs";
    callable->uses_varargs |= text == "varargs";
  }
  Expression* node = expression_node(Op::name, at);
  node->index = template_.intern(text);
  return node;
}

Expression* Parser::list() {
  const int at = line();
  advance();
  std::vector<Expression*> parts;
  while (!at_symbol("]")) {
    if (!parts.empty()) expect_symbol(",");
    if (at_symbol("]")) break;
    parts.push_back(expression());
  }
  advance();
  return expression_node(Op::list, at, std::move(parts));
}

Expression* Parser::dict() {
  const int at = line();
  advance();
  std::vector<Expression*> parts;
  while (!at_symbol("}")) {
    if (!parts.empty()) expect_symbol(",");
    if (at_symbol("}")) break;
    parts.push_back(expression());
    expect_symbol(":");
    parts.push_back(expression());
  }
  advance();
  return expression_node(Op::dict, at, std::move(parts));
}

Expression* Parser::postfix(Expression* node) {
  while (true) {
    if (at_symbol(".") || at_symbol("[")) node = subscript(node);
    else if (at_symbol("(")) node = call(node);
    else return node;
  }
}

Expression* Parser::subscript(Expression* node) {
  const int at = line();
  if (skip_symbol(".")) {
    if (current().kind == TokenKind::integer) return expression_node(Op::item, at, {node, primary()});
    if (current().kind != TokenKind::name) fail_unexpected("a name or a number after '.'");
    Expression* attribute = expression_node(Op::attribute, at, {node});
    attribute->text = expect_identifier();
    return attribute;
  }
  advance();
  if (at_symbol("]")) return expression_node(Op::item, at, {node, expression_node(Op::tuple, at)});
  Expression* first = subscripted(node);
  if (skip_symbol("]"))
    return first->op == Op::slice && first->parts[0] == node ? first : expression_node(Op::item, at, {node, first});
  std::vector<Expression*> parts = {first};
  while (skip_symbol(",")) parts.push_back(subscripted(node));
  expect_symbol("]");
  for (const Expression* part : parts)
    if (part->op == Op::slice && part->parts[0] == node) fail("a slice cannot be part of a tuple");
  return expression_node(Op::item, at, {node, expression_node(Op::tuple, at, std::move(parts))});
}

// An index, or the whole slice of the container.
Expression* Parser::subscripted(Expression* container) {
  const int at = line();
  const auto bound = [this]() -> Expression* {
    return at_symbol(":") || at_symbol("]") || at_symbol(",") ? nullptr : expression();
  };
  Expression* start = at_symbol(":") ? nullptr : expression();
  if (!skip_symbol(":")) {
    if (!start) fail_unexpected("an index");
    return start;
  }
  Expression* stop = bound();
  Expression* step = skip_symbol(":") ? bound() : nullptr;
  return expression_node(Op::slice, at, {container, start, stop, step});
}

Expression* Parser::filters_and_tests(Expression* node) {
  while (true) {
    if (at_symbol("|")) node = filter(node, false);
    else if (at_name("is")) node = test(node);
    else if (at_symbol("(")) node = call(node);
    else return node;
  }
}

Expression* Parser::filter(Expression* node, bool inline_start) {
  while (inline_start || at_symbol("|")) {
    if (!inline_start) advance();
    inline_start = false;
    const int at = line();
    std::string text = expect_identifier();
    while (skip_symbol(".")) text += "." + expect_identifier();
    Expression* filtered = expression_node(Op::filter, at, {node});
    filtered->filter = find_filter(text);
    if (!filtered->filter && !conditional_)
      unknown_.push_back({TokenKind::name, at, "there is no filter named '" + text + "'"});
    filtered->text = std::move(text);
    if (at_symbol("(")) adopt_arguments(filtered, call_arguments());
    node = filtered;
  }
  return node;
}

Expression* Parser::test(Expression* node) {
  const int at = line();
  advance();
  const bool negated = skip_name("not");
  std::string text = expect_identifier();
  while (skip_symbol(".")) text += "." + expect_identifier();
  Expression* tested = expression_node(Op::test, at, {node});
  tested->test = find_test(text);
  if (!tested->test && !conditional_)
    unknown_.push_back({TokenKind::name, at, "there is no test named '" + text + "'"});
  tested->text = std::move(text);
  const TokenKind kind = current().kind;
  if (at_symbol("(")) {
    adopt_arguments(tested, call_arguments());
  } else if ((kind == TokenKind::name || kind == TokenKind::string || kind == TokenKind::integer ||
              kind == TokenKind::floating || at_symbol("[") || at_symbol("{")) &&
             !in({"else", "or", "and"}, current())) {
    if (at_name("is")) fail("tests cannot be chained with 'is'");
    CallArguments arguments;
    arguments.positional.push_back(postfix(primary()));
    adopt_arguments(tested, std::move(arguments));
  }
  return negated ? expression_node(Op::negation, at, {tested}) : tested;
}

Expression* Parser::call(Expression* node) {
  Expression* called = expression_node(Op::call, line(), {node});
  adopt_arguments(called, call_arguments());
  return called;
}

void Parser::adopt_arguments(Expression* node, CallArguments arguments) {
  const auto deepen = [node](const Expression* part) {
    if (part) node->depth = std::max(node->depth, part->depth + 1);
  };
  for (const Expression* part : arguments.positional) deepen(part);
  for (const auto& part : arguments.named) deepen(part.second);
  deepen(arguments.list);
  deepen(arguments.dict);
  if (node->depth > kMaxDepth) fail("an expression is nested too deeply");
  node->arguments = std::move(arguments);
}

CallArguments Parser::call_arguments() {
  CallArguments out;
  const auto ensure = [](bool valid) {
    if (!valid) fail("the arguments of a call are in the wrong order");
  };
  expect_symbol("(");
  for (bool first = true; !at_symbol(")"); first = false) {
    if (!first) {
      expect_symbol(",");
      if (at_symbol(")")) break;
    }
    if (skip_symbol("*")) {
      ensure(!out.list && !out.dict);
      out.list = expression();
    } else if (skip_symbol("**")) {
      ensure(!out.dict);
      out.dict = expression();
    } else if (current().kind == TokenKind::name && ahead().is(TokenKind::symbol, "=")) {
      ensure(!out.dict);
      std::string keyword = expect_identifier();
      advance();
      for (const auto& other : out.named)
        if (other.first == keyword) fail("the argument '" + keyword + "' is given twice");
      out.named.emplace_back(std::move(keyword), expression());
    } else {
      ensure(!out.list && !out.dict && out.named.empty());
      out.positional.push_back(expression());
    }
  }
  advance();
  return out;
}

}  // namespace drafthorse::jinja
