#include "compiler/import/frame/expression.h"

#include <charconv>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace rvm::importing {
namespace {

using Kind = Expression::Kind;
using Result = std::optional<Expression>;

constexpr size_t kMaxLength = 4096;
constexpr size_t kMaxCopied = 1000;  // nodes of an operand that stands twice: powers of powers grow fast
constexpr int kMaxDepth = 50;
constexpr int64_t kMaxPower = 4;

struct Token {
  std::string_view text;
  Kind kind;
};
// Longer ones first.
constexpr Token kComparisons[] = {{"==", Kind::kEqual}, {"!=", Kind::kNotEqual},     {"<=", Kind::kLessEqual},
                                  {"<", Kind::kLess},   {">=", Kind::kGreaterEqual}, {">", Kind::kGreater}};
constexpr Token kProducts[] = {{"*", Kind::kMultiply}, {"//", Kind::kFloorDivide}, {"%", Kind::kFloorMod}};
constexpr Token kFunctions[] = {{"Add", Kind::kAdd},
                                {"Mul", Kind::kMultiply},
                                {"Max", Kind::kMaximum},
                                {"max", Kind::kMaximum},
                                {"Min", Kind::kMinimum},
                                {"min", Kind::kMinimum},
                                {"FloorDiv", Kind::kFloorDivide},
                                {"CleanDiv", Kind::kFloorDivide},
                                {"Mod", Kind::kFloorMod},
                                {"PythonMod", Kind::kFloorMod}};

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool Divides(Kind kind) { return kind == Kind::kFloorDivide || kind == Kind::kFloorMod; }
Expression NumberOf(int64_t number) { return {Kind::kNumber, number, "", {}}; }
size_t Size(const Expression& expression) {
  size_t size = 1;
  for (const Expression& operand : expression.operands) size += Size(operand);
  return size;
}

// Parses by recursive descent. Each method reads what Python's grammar calls by that name.
class Parser {
 public:
  Parser(std::string_view text, Syntax syntax) : text_(text), syntax_(syntax) {}

  Result Parse() {
    Result all = Inner(0);
    SkipSpaces();
    return all && at_ == text_.size() && all->is_condition() == (syntax_ == Syntax::kGuard) ? all : std::nullopt;
  }

 private:
  // ---- tokens
  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(std::string_view token) {
    SkipSpaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  // Takes `word` if it is not the beginning of a longer one.
  bool TakeWord(std::string_view word) {
    const size_t begin = at_;
    if (Word() == word) return true;
    at_ = begin;
    return false;
  }
  std::optional<Kind> TakeOneOf(std::span<const Token> tokens) {
    for (const Token& token : tokens) {
      if (Take(token.text)) return token.kind;
    }
    return std::nullopt;
  }
  std::optional<int64_t> Number() {
    SkipSpaces();
    if (syntax_ == Syntax::kExtent && at_ < text_.size() && !IsDigit(text_[at_])) return std::nullopt;
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  std::string_view Word() {
    SkipSpaces();
    auto is_part = [&](char c) {
      if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_') return true;
      return syntax_ == Syntax::kExtent && (c == '.' || c == ':');
    };
    const size_t begin = at_;
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // Returns the text up to `end`, which is taken, too.
  std::optional<std::string_view> Until(char end) {
    const size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) return std::nullopt;
    std::string_view text = text_.substr(at_, found - at_);
    at_ = found + 1;
    return text;
  }
  // Takes a minus sign, unless it may be part of a name.
  bool TakeMinus() {
    if (!Take("-")) return false;
    if (syntax_ != Syntax::kExtent) return true;
    auto is_space = [&](size_t at) { return at < text_.size() && text_[at] == ' '; };
    if ((at_ >= 2 && is_space(at_ - 2) && is_space(at_)) || (at_ < text_.size() && IsDigit(text_[at_]))) return true;
    --at_;
    return false;
  }

  // ---- the grammar
  Result Inner(int depth) { return syntax_ == Syntax::kGuard ? Disjunction(depth) : Sum(depth); }
  Result Disjunction(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    Result result = Conjunction(depth);
    while (result && TakeWord("or")) result = Combine(Kind::kOr, std::move(result), Conjunction(depth));
    return result;
  }
  Result Conjunction(int depth) {
    Result result = Inversion(depth);
    while (result && TakeWord("and")) result = Combine(Kind::kAnd, std::move(result), Inversion(depth));
    return result;
  }
  Result Inversion(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (!TakeWord("not")) return Comparison(depth);
    Result inner = Inversion(depth + 1);
    if (!inner || !inner->is_condition()) return std::nullopt;
    return Expression{Kind::kNot, 0, "", {*std::move(inner)}};
  }

  // "a < b <= c" is "a < b and b <= c".
  Result Comparison(int depth) {
    Result left = Sum(depth), result;
    if (!left) return std::nullopt;
    while (std::optional<Kind> kind = TakeOneOf(kComparisons)) {
      Result right = Sum(depth);
      Result compared = Combine(*kind, std::move(left), right);
      if (!compared) return std::nullopt;
      result = result ? Combine(Kind::kAnd, std::move(result), std::move(compared)) : std::move(compared);
      left = std::move(right);
    }
    return result ? std::move(result) : std::move(left);
  }

  Result Sum(int depth) {
    Result result = Product(depth);
    while (result) {
      if (Take("+")) {
        result = Combine(Kind::kAdd, std::move(result), Product(depth));
      } else if (TakeMinus()) {
        result = Combine(Kind::kSubtract, std::move(result), Product(depth));
      } else {
        break;
      }
    }
    return result;
  }
  Result Product(int depth) {
    Result result = Power(depth);
    while (result) {
      std::optional<Kind> kind = TakeOneOf(kProducts);
      if (!kind) break;
      result = Combine(*kind, std::move(result), Power(depth));
    }
    return result;
  }
  Result Power(int depth) {
    Result base = Factor(depth);
    if (!base || !Take("**")) return base;
    std::optional<int64_t> exponent = Number();
    return exponent && syntax_ != Syntax::kExtent ? Power(std::move(base), *exponent) : std::nullopt;
  }
  Result Factor(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (Take("(")) {
      Result inner = Inner(depth + 1);
      return inner && Take(")") ? std::move(inner) : std::nullopt;
    }
    if (std::optional<int64_t> number = Number()) return NumberOf(*number);
    if (syntax_ != Syntax::kExtent && Take("-")) return Combine(Kind::kSubtract, NumberOf(0), Power(depth + 1));
    std::string_view word = Word();
    if (word.empty()) return std::nullopt;
    if (syntax_ == Syntax::kExtent) return Expression{Kind::kName, 0, std::string(word), {}};
    if (syntax_ == Syntax::kGuard && word == "L") return Input();
    return Take("(") ? Call(word, depth + 1) : std::nullopt;
  }

  // Returns the arguments of a function and its closing parenthesis.
  Result Call(std::string_view function, int depth) {
    if (function == "Integer") {
      std::optional<int64_t> number = Number();
      return number && Take(")") ? Result(NumberOf(*number)) : std::nullopt;
    }
    if (function == "Symbol") {
      std::optional<std::string_view> name = Take("'") ? Until('\'') : std::nullopt;
      return name && Until(')') ? Result(Expression{Kind::kName, 0, std::string(*name), {}}) : std::nullopt;
    }
    std::vector<Expression> args;
    do {
      Result arg = Sum(depth);
      if (!arg) return std::nullopt;
      args.push_back(*std::move(arg));
    } while (Take(","));
    if (!Take(")") || args.size() < 2) return std::nullopt;
    if (function == "Pow" || function == "PowByNatural") {
      return args.size() == 2 && args[1].kind == Kind::kNumber ? Power(args[0], args[1].number) : std::nullopt;
    }
    if (function == "CeilDiv") {
      Result most = Combine(Kind::kAdd, args[0], Combine(Kind::kSubtract, args[1], NumberOf(1)));
      return args.size() == 2 && Size(args[1]) <= kMaxCopied ? Combine(Kind::kFloorDivide, std::move(most), args[1])
                                                             : std::nullopt;
    }
    for (const Token& token : kFunctions) {
      if (token.text != function) continue;
      if (Divides(token.kind) && args.size() != 2) return std::nullopt;
      Result result = args[0];
      for (size_t i = 1; i < args.size(); ++i) result = Combine(token.kind, std::move(result), std::move(args[i]));
      return result;
    }
    return std::nullopt;
  }

  // "['x'][0]['key'].size()[1]" behind "L".
  Result Input() {
    std::string name;
    while (Take("[")) {
      const bool is_text = Take("'");
      std::optional<std::string_view> text = is_text ? Until('\'') : std::nullopt;
      std::optional<int64_t> index = is_text ? std::nullopt : Number();
      if ((!text && !index) || !Take("]")) return std::nullopt;
      absl::StrAppend(&name, name.empty() ? "" : "_", text ? std::string(*text) : absl::StrCat(*index));
    }
    if (name.empty()) return std::nullopt;
    if (!Take(".size()[")) return Expression{Kind::kName, 0, std::move(name), {}};
    std::optional<int64_t> axis = Number();
    if (!axis || *axis < 0 || !Take("]")) return std::nullopt;
    return Expression{Kind::kExtent, *axis, std::move(name), {}};
  }

  // ---- trees
  Result Combine(Kind kind, Result a, Result b) const {
    if (!a || !b) return std::nullopt;
    const bool takes_conditions = kind >= Kind::kAnd;
    if (a->is_condition() != takes_conditions || b->is_condition() != takes_conditions) return std::nullopt;
    const bool is_number = b->kind == Kind::kNumber && b->number > 0;
    if (syntax_ == Syntax::kGuard && Divides(kind) && !is_number) return std::nullopt;
    Expression result = {kind, 0, "", {}};
    result.operands.push_back(*std::move(a));
    result.operands.push_back(*std::move(b));
    return result;
  }
  Result Power(const Result& base, int64_t exponent) const {
    if (exponent < 1 || exponent > kMaxPower || Size(*base) > kMaxCopied) return std::nullopt;
    Result result = base;
    for (int64_t i = 1; i < exponent; ++i) result = Combine(Kind::kMultiply, std::move(result), base);
    return result;
  }

  std::string_view text_;
  Syntax syntax_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Expression> ParseExpression(std::string_view text, Syntax syntax) {
  return text.size() > kMaxLength ? std::nullopt : Parser(text, syntax).Parse();
}

std::optional<Dim> ToDim(const Expression& expression, const DimOfName& dim_of) {
  if (expression.kind == Kind::kNumber) return Dim(expression.number);
  if (expression.kind == Kind::kName) return dim_of(expression.name);
  if (expression.operands.size() != 2) return std::nullopt;
  std::optional<Dim> a = ToDim(expression.operands[0], dim_of), b = ToDim(expression.operands[1], dim_of);
  if (!a || !b) return std::nullopt;
  const bool divides = b->is_const() && b->constant() > 0;
  switch (expression.kind) {
    case Kind::kAdd: return *a + *b;
    case Kind::kSubtract: return *a - *b;
    case Kind::kMultiply: return *a * *b;
    case Kind::kFloorDivide: return divides ? std::optional(FloorDiv(*a, *b)) : std::nullopt;
    case Kind::kFloorMod: return divides ? std::optional(FloorMod(*a, *b)) : std::nullopt;
    case Kind::kMinimum: return Min(*a, *b);
    case Kind::kMaximum: return Max(*a, *b);
    case Kind::kNumber:
    case Kind::kName:
    case Kind::kExtent:
    case Kind::kEqual:
    case Kind::kNotEqual:
    case Kind::kLess:
    case Kind::kLessEqual:
    case Kind::kGreater:
    case Kind::kGreaterEqual:
    case Kind::kAnd:
    case Kind::kOr:
    case Kind::kNot: break;
  }
  return std::nullopt;
}

}  // namespace rvm::importing
