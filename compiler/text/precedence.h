// The precedence of binary operators, for the parser and the printer.
#ifndef RVM_COMPILER_TEXT_PRECEDENCE_H_
#define RVM_COMPILER_TEXT_PRECEDENCE_H_

#include <string_view>

namespace rvm::text {

// Returns the precedence of `op`: a higher number binds tighter, 0 means not a binary operator. All are
// left-associative.
inline int Precedence(std::string_view op) {
  if (op == ":=") return 1;
  if (op == "==" || op == "!=") return 2;
  if (op == "<" || op == "<=" || op == ">" || op == ">=") return 3;
  if (op == "+" || op == "-") return 4;
  if (op == "*" || op == "/") return 5;
  return 0;
}
inline constexpr int kPostfixPrecedence = 7;  // of calls and projections

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PRECEDENCE_H_
