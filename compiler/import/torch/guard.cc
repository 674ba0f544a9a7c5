#include "compiler/import/torch/guard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/torch/expression_reader.h"

namespace rvm::torch {
namespace {

using Kind = GuardExpression::Kind;
using Expression = std::optional<GuardExpression>;

constexpr int kMaxDepth = 50;

struct Token {
  std::string_view text;
  Kind kind;
};
// Longer ones first.
constexpr Token kComparisons[] = {{"==", Kind::kEqual}, {"!=", Kind::kNotEqual},     {"<=", Kind::kLessEqual},
                                  {"<", Kind::kLess},   {">=", Kind::kGreaterEqual}, {">", Kind::kGreater}};
constexpr Token kSums[] = {{"+", Kind::kAdd}, {"-", Kind::kSubtract}};
constexpr Token kProducts[] = {{"*", Kind::kMultiply}, {"//", Kind::kFloorDivide}, {"%", Kind::kFloorMod}};
constexpr Token kFunctions[] = {
    {"max", Kind::kMaximum},  {"Max", Kind::kMaximum},        {"min", Kind::kMinimum},         {"Min", Kind::kMinimum},
    {"Mod", Kind::kFloorMod}, {"PythonMod", Kind::kFloorMod}, {"FloorDiv", Kind::kFloorDivide}};

Expression Combine(Kind kind, std::vector<GuardExpression> operands) {
  bool takes_conditions = kind >= Kind::kAnd;
  for (const GuardExpression& operand : operands) {
    if (operand.is_condition() != takes_conditions) return std::nullopt;
  }
  bool divides = kind == Kind::kFloorDivide || kind == Kind::kFloorMod;
  if (divides && (operands[1].kind != Kind::kNumber || operands[1].number <= 0)) return std::nullopt;
  return GuardExpression{kind, 0, "", std::move(operands)};
}

Expression Combine(Kind kind, Expression a, Expression b) {
  if (!a || !b) return std::nullopt;
  std::vector<GuardExpression> operands;
  operands.push_back(*std::move(a));
  operands.push_back(*std::move(b));
  return Combine(kind, std::move(operands));
}

// Each method reads what Python's grammar calls by that name.
class GuardParser {
 public:
  explicit GuardParser(std::string_view text) : reader_(text) {}

  Expression Parse() {
    Expression all = Disjunction(0);
    return all && all->is_condition() && reader_.AtEnd() ? all : std::nullopt;
  }

 private:
  Expression Disjunction(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    Expression result = Conjunction(depth);
    while (result && reader_.TakeWord("or")) result = Combine(Kind::kOr, std::move(result), Conjunction(depth));
    return result;
  }
  Expression Conjunction(int depth) {
    Expression result = Inversion(depth);
    while (result && reader_.TakeWord("and")) result = Combine(Kind::kAnd, std::move(result), Inversion(depth));
    return result;
  }
  Expression Inversion(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (!reader_.TakeWord("not")) return Comparison(depth);
    Expression inner = Inversion(depth + 1);
    return inner ? Combine(Kind::kNot, {*std::move(inner)}) : std::nullopt;
  }

  // "a < b <= c" is "a < b and b <= c".
  Expression Comparison(int depth) {
    Expression left = Sum(depth), result;
    if (!left) return std::nullopt;
    while (std::optional<Kind> kind = TakeOneOf(kComparisons)) {
      Expression right = Sum(depth);
      Expression compared = Combine(*kind, std::move(left), right);
      if (!compared) return std::nullopt;
      result = result ? Combine(Kind::kAnd, std::move(result), std::move(compared)) : std::move(compared);
      left = std::move(right);
    }
    return result ? std::move(result) : std::move(left);
  }

  Expression Sum(int depth) {
    Expression result = Product(depth);
    while (result) {
      std::optional<Kind> kind = TakeOneOf(kSums);
      if (!kind) break;
      result = Combine(*kind, std::move(result), Product(depth));
    }
    return result;
  }
  Expression Product(int depth) {
    Expression result = Power(depth);
    while (result) {
      std::optional<Kind> kind = TakeOneOf(kProducts);
      if (!kind) break;
      result = Combine(*kind, std::move(result), Power(depth));
    }
    return result;
  }
  Expression Power(int depth) {
    Expression base = Factor(depth);
    if (!base || !reader_.Take("**")) return base;
    std::optional<int64_t> exponent = reader_.Number();
    if (!exponent || *exponent < 1 || *exponent > 4) return std::nullopt;
    Expression result = base;
    for (int64_t i = 1; result && i < *exponent; ++i) result = Combine(Kind::kMultiply, std::move(result), base);
    return result;
  }
  Expression Factor(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (reader_.Take("(")) {
      Expression inner = Disjunction(depth + 1);
      return inner && reader_.Take(")") ? inner : std::nullopt;
    }
    if (std::optional<int64_t> number = reader_.Number()) return GuardExpression{Kind::kNumber, *number, "", {}};
    if (reader_.Take("-")) {
      return Combine(Kind::kSubtract, GuardExpression{Kind::kNumber, 0, "", {}}, Power(depth + 1));
    }
    std::string_view word = reader_.Word();
    if (word == "L") return Input();
    for (const Token& function : kFunctions) {
      if (word == function.text && reader_.Take("(")) return Arguments(function.kind, depth + 1);
    }
    return std::nullopt;
  }

  Expression Arguments(Kind kind, int depth) {
    Expression result = Sum(depth);
    int count = 1;
    for (; result && reader_.Take(","); ++count) result = Combine(kind, std::move(result), Sum(depth));
    bool divides = kind == Kind::kFloorDivide || kind == Kind::kFloorMod;
    return result && reader_.Take(")") && (divides ? count == 2 : count >= 2) ? std::move(result) : std::nullopt;
  }

  // "['x'][0]['key'].size()[1]" behind "L".
  Expression Input() {
    std::string name;
    while (reader_.Take("[")) {
      std::string part;
      if (reader_.Take("'")) {
        std::optional<std::string_view> text = reader_.Until('\'');
        if (!text) return std::nullopt;
        part = std::string(*text);
      } else {
        std::optional<int64_t> index = reader_.Number();
        if (!index) return std::nullopt;
        part = absl::StrCat(*index);
      }
      if (!reader_.Take("]")) return std::nullopt;
      absl::StrAppend(&name, name.empty() ? "" : "_", part);
    }
    if (name.empty()) return std::nullopt;
    if (!reader_.Take(".size()[")) return GuardExpression{Kind::kInput, 0, std::move(name), {}};
    std::optional<int64_t> axis = reader_.Number();
    if (!axis || *axis < 0 || !reader_.Take("]")) return std::nullopt;
    return GuardExpression{Kind::kExtent, *axis, std::move(name), {}};
  }

  template <size_t N>
  std::optional<Kind> TakeOneOf(const Token (&tokens)[N]) {
    for (const Token& token : tokens) {
      if (reader_.Take(token.text)) return token.kind;
    }
    return std::nullopt;
  }

  ExpressionReader reader_;
};

}  // namespace

std::optional<GuardExpression> ParseGuard(std::string_view text) {
  if (text.size() > kMaxExpressionText) return std::nullopt;
  return GuardParser(text).Parse();
}

}  // namespace rvm::torch
