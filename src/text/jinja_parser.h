#pragma once
// Tokens to a Template, by recursive descent. Private to the engine: use parse_template.

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace drafthorse::jinja {

// Error: invalid_argument, "template line N: …".
Result<std::shared_ptr<const Template>> parse_template(std::string_view source);

class Parser {
 public:
  Parser(std::vector<Token> tokens, Template& out) : tokens_(std::move(tokens)), template_(out) {}
  void run();
  int line() const { return failed_line_ ? failed_line_ : current().line; }

 private:
  struct Nested {  // counts nesting while it lives
    explicit Nested(Parser& p);
    ~Nested() { --parser.nesting_; }
    Parser& parser;
  };

  // Tokens.
  const Token& current() const { return tokens_[position_]; }
  const Token& ahead() const { return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_]; }
  bool at_symbol(std::string_view text) const { return current().is(TokenKind::symbol, text); }
  bool at_name(std::string_view text) const { return current().is(TokenKind::name, text); }
  bool skip_symbol(std::string_view text);
  bool skip_name(std::string_view text);
  void advance() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  void expect(TokenKind kind);
  void expect_symbol(std::string_view text);
  void expect_name(std::string_view text);
  std::string expect_identifier();
  [[noreturn]] void fail_unexpected(const std::string& wanted) const;

  // Nodes.
  Expression* expression_node(Op op, int line, std::vector<Expression*> parts = {});
  Expression* literal(Literal value, int line);
  Statement* statement_node(Action action, int line);

  // Statements.
  Body body_until(std::initializer_list<std::string_view> ends);
  Body block_body(std::initializer_list<std::string_view> ends, bool drop_end);
  Statement* statement();
  Statement* parse_for();
  Statement* parse_if();
  Statement* parse_set();
  Statement* parse_with();
  Statement* parse_macro();
  Statement* parse_call_block();
  Statement* parse_filter_block();
  Statement* parse_print();
  Statement* parse_scope(std::string_view end);
  Statement* parse_break(Action action);
  void parse_signature(MacroDefinition& definition);
  void parse_callable_body(MacroDefinition& definition, std::string_view end);
  Expression* assignment_target(std::initializer_list<std::string_view> ends, bool with_namespace);
  Expression* name_target();
  void check_target(const Expression* target) const;

  // Expressions, loosest first.
  Expression* tuple(bool conditional, std::initializer_list<std::string_view> ends, bool parenthesised,
                    bool simple = false);
  Expression* expression(bool conditional = true);
  Expression* logical_or();
  Expression* logical_and();
  Expression* logical_not();
  Expression* comparison();
  Expression* sum();
  Expression* concatenation();
  Expression* product();
  Expression* power();
  Expression* unary(bool with_filters);
  Expression* primary();
  Expression* name();
  Expression* list();
  Expression* dict();
  Expression* postfix(Expression* node);
  Expression* subscript(Expression* node);
  Expression* subscripted(Expression* container);
  Expression* filters_and_tests(Expression* node);
  Expression* filter(Expression* node, bool inline_start);
  Expression* test(Expression* node);
  Expression* call(Expression* node);
  CallArguments call_arguments();
  void adopt_arguments(Expression* node, CallArguments arguments);

  std::vector<Token> tokens_;
  size_t position_ = 0;
  Template& template_;
  int nesting_ = 0;
  int conditional_ = 0;         // inside a branch: unknown filters fail when they are reached
  std::vector<Token> unknown_;  // messages about filters and tests that do not exist, outside of any branch
  int failed_line_ = 0;         // when it is not the current token's
  int loops_ = 0;               // loops around, in the same callable
  std::vector<MacroDefinition*> callables_;
};

}  // namespace drafthorse::jinja
