#include "text/jinja_parser.h"

#include <algorithm>

#include "text/jinja_scopes.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

constexpr int kMaxNesting = 400;  // a parenthesis counts three times

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data: return "text";
    case TokenKind::block_begin: return "'{%'";
    case TokenKind::block_end: return "'%}'";
    case TokenKind::variable_begin: return "'{{'";
    case TokenKind::variable_end: return "'}}'";
    case TokenKind::end: return "the end of the template";
    case TokenKind::string: return "a string";
    default: return "'" + token.text + "'";
  }
}

}  // namespace

void Parser::fail_unexpected(const std::string& wanted) const {
  fail("expected " + wanted + ", found " + describe(current()));
}

bool Parser::skip_symbol(std::string_view text) {
  if (!at_symbol(text)) return false;
  advance();
  return true;
}

bool Parser::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  advance();
  return true;
}

void Parser::expect(TokenKind kind) {
  if (current().kind != kind) fail_unexpected(describe({kind, 0, ""}));
  advance();
}

void Parser::expect_symbol(std::string_view text) {
  if (!skip_symbol(text)) fail_unexpected("'" + std::string(text) + "'");
}

void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) fail_unexpected("'" + std::string(text) + "'");
}

std::string Parser::expect_identifier() {
  if (current().kind != TokenKind::name) fail_unexpected("a name");
  std::string text = current().text;
  advance();
  return text;
}

Statement* Parser::statement_node(Action action, int line) {
  Statement& node = template_.statements.emplace_back();
  node.action = action;
  node.line = line;
  return &node;
}

void Parser::run() {
  template_.body = body_until({});
  if (current().kind != TokenKind::end) fail_unexpected("the end of the template");
  if (unknown_.empty()) return;
  failed_line_ = unknown_.front().line;
  fail(unknown_.front().text);
}

// Statements up to a block whose name is in `ends`; that name is then the current token.
Body Parser::body_until(std::initializer_list<std::string_view> ends) {
  Body body;
  while (true) {
    const Token& token = current();
    if (token.kind == TokenKind::end) {
      if (ends.size()) fail_unexpected("'{% " + std::string(*(ends.end() - 1)) + " %}'");
      return body;
    }
    if (token.kind == TokenKind::data) {
      Statement* text = statement_node(Action::text, token.line);
      text->index = static_cast<uint32_t>(template_.literals.size());
      template_.literals.push_back({.type = Literal::Type::string, .string = token.text});
      body.push_back(text);
      advance();
    } else if (token.kind == TokenKind::variable_begin) {
      Statement* print = statement_node(Action::print, token.line);
      advance();
      print->expression = tuple(true, {}, false);
      expect(TokenKind::variable_end);
      body.push_back(print);
    } else {
      expect(TokenKind::block_begin);
      if (current().kind == TokenKind::name && std::find(ends.begin(), ends.end(), current().text) != ends.end())
        return body;
      body.push_back(statement());
      expect(TokenKind::block_end);
    }
  }
}

Body Parser::block_body(std::initializer_list<std::string_view> ends, bool drop_end) {
  skip_symbol(":");
  expect(TokenKind::block_end);
  Body body = body_until(ends);
  if (drop_end) advance();
  return body;
}

Parser::Nested::Nested(Parser& p) : parser(p) {
  if (parser.nesting_ >= kMaxNesting) fail("the template is nested too deeply");
  ++parser.nesting_;
}

Statement* Parser::statement() {
  const Nested nested(*this);
  if (current().kind != TokenKind::name) fail_unexpected("the name of a tag");
  const std::string tag = current().text;
  if (tag == "for") return parse_for();
  if (tag == "if") return parse_if();
  if (tag == "set") return parse_set();
  if (tag == "with") return parse_with();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "filter") return parse_filter_block();
  if (tag == "print") return parse_print();
  if (tag == "generation") return parse_scope("endgeneration");
  if (tag == "break") return parse_break(Action::loop_break);
  if (tag == "continue") return parse_break(Action::loop_continue);
  fail("the tag '" + tag + "' is unknown or out of place here");
}

Statement* Parser::parse_for() {
  Statement* node = statement_node(Action::loop, line());
  advance();
  node->target = assignment_target({"in"}, false);
  expect_name("in");
  node->expression = tuple(false, {"recursive"}, false);
  const int outer_conditional = std::exchange(conditional_, 0);
  if (skip_name("if")) node->condition = expression();
  node->recursive = skip_name("recursive");
  ++loops_;
  node->bodies.push_back(block_body({"else", "endfor"}, false));
  --loops_;
  const bool otherwise = at_name("else");
  advance();
  node->bodies.push_back(otherwise ? block_body({"endfor"}, true) : Body{});
  conditional_ = outer_conditional;
  return node;
}

Statement* Parser::parse_if() {
  Statement* node = statement_node(Action::branch, line());
  expect_name("if");
  ++conditional_;
  while (true) {
    node->conditions.push_back(tuple(false, {}, false));
    node->bodies.push_back(block_body({"elif", "else", "endif"}, false));
    if (skip_name("elif")) continue;
    const bool otherwise = at_name("else");
    advance();
    node->bodies.push_back(otherwise ? block_body({"endif"}, true) : Body{});
    --conditional_;
    return node;
  }
}

Statement* Parser::parse_set() {
  Statement* node = statement_node(Action::set, line());
  advance();
  node->target = assignment_target({}, true);
  if (skip_symbol("=")) {
    node->expression = tuple(true, {}, false);
    return node;
  }
  node->action = Action::set_block;
  node->expression = filter(nullptr, false);
  node->bodies.push_back(block_body({"endset"}, true));
  return node;
}

Statement* Parser::parse_with() {
  Statement* node = statement_node(Action::with, line());
  advance();
  while (current().kind != TokenKind::block_end) {
    if (!node->targets.empty()) expect_symbol(",");
    node->targets.push_back(assignment_target({}, false));
    expect_symbol("=");
    node->values.push_back(expression());
  }
  node->bodies.push_back(block_body({"endwith"}, true));
  return node;
}

Statement* Parser::parse_macro() {
  Statement* node = statement_node(Action::macro, line());
  advance();
  Expression* target = name_target();
  node->index = target->index;
  node->definition.name = template_.names[target->index];
  parse_signature(node->definition);
  parse_callable_body(node->definition, "endmacro");
  return node;
}

Statement* Parser::parse_call_block() {
  Statement* node = statement_node(Action::call_block, line());
  advance();
  if (at_symbol("(")) parse_signature(node->definition);
  node->expression = expression();
  if (node->expression->op != Op::call) fail("expected a call after 'call'");
  parse_callable_body(node->definition, "endcall");
  return node;
}

void Parser::parse_callable_body(MacroDefinition& definition, std::string_view end) {
  const int outer_loops = std::exchange(loops_, 0), outer_conditional = std::exchange(conditional_, 0);
  callables_.push_back(&definition);
  definition.body = block_body({end}, true);
  callables_.pop_back();
  loops_ = outer_loops;
  conditional_ = outer_conditional;
}

void Parser::parse_signature(MacroDefinition& definition) {
  expect_symbol("(");
  while (!at_symbol(")")) {
    if (!definition.parameters.empty()) expect_symbol(",");
    const Expression* parameter = name_target();
    const std::string name = template_.names[parameter->index];
    for (const auto& other : definition.parameters)
      if (other.first == name) fail("the parameter '" + name + "' is given twice");
    if (skip_symbol("=")) definition.defaults.push_back(expression());
    else if (!definition.defaults.empty()) fail("a parameter without a default follows one with a default");
    definition.parameters.emplace_back(name, parameter->index);
  }
  advance();
}

Statement* Parser::parse_filter_block() {
  Statement* node = statement_node(Action::filter_block, line());
  advance();
  node->expression = filter(nullptr, true);
  node->bodies.push_back(block_body({"endfilter"}, true));
  return node;
}

Statement* Parser::parse_print() {
  Statement* node = statement_node(Action::branch, line());
  advance();
  Body& body = node->bodies.emplace_back();
  while (current().kind != TokenKind::block_end) {
    if (!body.empty()) expect_symbol(",");
    Statement* print = statement_node(Action::print, line());
    print->expression = expression();
    body.push_back(print);
  }
  return node;
}

Statement* Parser::parse_scope(std::string_view end) {
  Statement* node = statement_node(Action::scope, line());
  advance();
  const int outer_loops = std::exchange(loops_, 0);
  node->bodies.push_back(block_body({end}, true));
  loops_ = outer_loops;
  return node;
}

Statement* Parser::parse_break(Action action) {
  if (loops_ == 0) fail("'" + current().text + "' outside a loop");
  Statement* node = statement_node(action, line());
  advance();
  return node;
}

void Parser::check_target(const Expression* target) const {
  if (target->op == Op::tuple) {
    for (const Expression* part : target->parts) check_target(part);
  } else if (target->op != Op::name) {
    fail("only names can be assigned to");
  }
}

Expression* Parser::name_target() {
  const int at = line();
  const std::string name = expect_identifier();
  if (name == "true" || name == "false" || name == "none" || name == "True" || name == "False" || name == "None")
    fail("'" + name + "' cannot be assigned to");
  Expression* node = expression_node(Op::name, at);
  node->index = template_.intern(name);
  return node;
}

Expression* Parser::assignment_target(std::initializer_list<std::string_view> ends, bool with_namespace) {
  if (with_namespace && ahead().is(TokenKind::symbol, ".")) {
    Expression* node = name_target();
    advance();
    node->op = Op::namespace_attribute;
    node->text = expect_identifier();
    return node;
  }
  Expression* node = tuple(false, ends, false, true);
  check_target(node);
  return node;
}

Result<std::shared_ptr<const Template>> parse_template(std::string_view source) {
  auto parsed = std::make_shared<Template>();
  int line = 1;
  std::unique_ptr<Parser> parser;
  try {
    auto tokens = tokenise(source, line);
    parser = std::make_unique<Parser>(std::move(tokens), *parsed);
    parser->run();
    find_unset_names(*parsed);
  } catch (const Failure& failure) {
    if (parser) line = parser->line();
    return Error{ErrorKind::invalid_argument, "template line " + std::to_string(line) + ": " + failure.message, ""};
  }
  return std::shared_ptr<const Template>(std::move(parsed));
}

}  // namespace drafthorse::jinja
