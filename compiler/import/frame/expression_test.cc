#include "compiler/import/frame/expression.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace rvm::importing {
namespace {

using Kind = Expression::Kind;

// In Lisp's notation, with short names.
std::string Text(const Expression& expression) {
  constexpr const char* kNames[] = {"",  "",   "",  "+",  "-", "*",  "//",  "%",  "min", "max",
                                    "=", "!=", "<", "<=", ">", ">=", "and", "or", "not"};
  if (expression.kind == Kind::kNumber) return std::to_string(expression.number);
  if (expression.kind == Kind::kName) return expression.name;
  if (expression.kind == Kind::kExtent) return expression.name + "." + std::to_string(expression.number);
  std::string text = std::string("(") + kNames[static_cast<size_t>(expression.kind)];
  for (const Expression& operand : expression.operands) text += " " + Text(operand);
  return text + ")";
}

std::string Read(std::string_view text) {
  std::optional<Expression> guard = ParseExpression(text, Syntax::kGuard);
  return guard ? Text(*guard) : "none";
}

TEST(Guard, ReadsConditions) {
  EXPECT_EQ(Read("((L['x'].size()[0] + 2) // 4) * 3 % 5 == L['x'].size()[1] - 3"),
            "(= (% (* (// (+ x.0 2) 4) 3) 5) (- x.1 3))");
  EXPECT_EQ(Read("2 <= L['x'].size()[1]"), "(<= 2 x.1)");
  EXPECT_EQ(Read("L['n'] > -3"), "(> n -3)");
  EXPECT_EQ(Read("2 < L['x'].size()[0] <= 7"), "(and (< 2 x.0) (<= x.0 7))");
  EXPECT_EQ(Read("not L['n'] == 1 and L['n'] != 2 or (L['n'] >= 9)"), "(or (and (not (= n 1)) (!= n 2)) (>= n 9))");
  EXPECT_EQ(Read("max(L['n'], 3, 2) == 2 * L['m']**2"), "(= (max (max n 3) 2) (* 2 (* m m)))");
  EXPECT_EQ(Read("Mod(L['n'], 2) == -L['m']"), "(= (% n 2) (- 0 m))");
}

TEST(Guard, NamesNestedInputsAsGraphsDo) {
  EXPECT_EQ(Read("L['args'][1].size()[0] == L['kw']['a']['b'].size()[2]"), "(= args_1.0 kw_a_b.2)");
}

TEST(Guard, RefusesWhatIsNoConditionOnIntegers) {
  for (const char* text :
       {"", "L['x'].size()[0]", "1 == 2 == (3 == 3)", "L['x'].size()[-1] == 1", "L['x'].stride()[0] == 1",
        "1 // L['n'] == 0", "L['n'] % 0 == 0", "1 == 2 or 3", "not 3", "L['n'] == 1 more", "max(L['n']) == 1",
        "L['n'] ** 9 == 1", "isinstance(L['x'], int)", "L['n'] / 2 == 1", "L == 1", "L['x"}) {
    EXPECT_EQ(Read(text), "none") << text;
  }
  EXPECT_EQ(Read(std::string(3000, '(')), "none");
}

// Returns the text of the dim; "" if `text` is no extent.
std::string DimText(std::string_view text, Syntax syntax) {
  std::optional<Expression> expression = ParseExpression(text, syntax);
  if (!expression) return "";
  std::optional<Dim> dim = ToDim(*expression, [](std::string_view name) -> std::optional<Dim> {
    if (name == "n" || name == "s0") return Dim::Var(1, "n");
    if (name == "past") return Dim::Var(2, "past");
    if (name == "two") return Dim(2);
    return std::nullopt;
  });
  return dim ? dim->ToString() : "";
}
std::string Extent(std::string_view text) { return DimText(text, Syntax::kExtent); }
std::string Sympy(std::string_view text) { return DimText(text, Syntax::kSympy); }

TEST(Extent, Operations) {
  EXPECT_EQ(Extent("past + n"), "past + n");
  EXPECT_EQ(Extent("past+1"), "past + 1");
  EXPECT_EQ(Extent("2*n"), "n * 2");
  EXPECT_EQ(Extent("n // 2"), "n / 2");
  EXPECT_EQ(Extent("n // two"), "n / 2");
  EXPECT_EQ(Extent("n % 4"), "mod(n, 4)");
  EXPECT_EQ(Extent("(n + past)*two"), "(n + past) * 2");
  EXPECT_EQ(Extent("n*2 + past*3"), "(n * 2) + (past * 3)");
  EXPECT_EQ(Extent("n - 1"), "n - 1");
  EXPECT_EQ(Extent("n-1"), "n - 1");
  EXPECT_EQ(Extent("past - n"), "past - n");
  EXPECT_EQ(Extent("(past + n) - n"), "(past + n) - n");
}

TEST(Extent, OtherText) {
  for (std::string_view text :
       {"", "past-n", "n + m", "n / 2", "n ** 2", "n + ", "+ n", "(n + 1", "n + 1)", "n // 0", "n // past", "max(n, 1)",
        "n n", "Add(n, 1)", "n * -1", "-n", "2n + 1", "n == 1", "n + 99999999999999999999"}) {
    EXPECT_EQ(Extent(text), "") << text;
  }
  EXPECT_EQ(Extent(std::string(100, '(') + "n + 1" + std::string(100, ')')), "");
}

TEST(Sympy, Functions) {
  EXPECT_EQ(Sympy("Integer(7)"), "7");
  EXPECT_EQ(Sympy("Symbol('s0', positive=True, integer=True)"), "n");
  EXPECT_EQ(Sympy("Add(Mul(Integer(2), Symbol('s0')), Integer(-1))"), (Dim(2) * Dim::Var(1, "n") + Dim(-1)).ToString());
  EXPECT_EQ(Sympy("FloorDiv(Symbol('s0'), Mul(Integer(2), Integer(3)))"), "n / 6");
  EXPECT_EQ(Sympy("CeilDiv(Symbol('s0'), Integer(4))"), "(n + 3) / 4");
  EXPECT_EQ(Sympy("Max(Symbol('s0'), Integer(2), Symbol('past'))"),
            Max(Max(Dim::Var(1, "n"), 2), Dim::Var(2, "past")).ToString());
  EXPECT_EQ(Sympy("Pow(Symbol('s0'), Integer(2))"), "n * n");
}

TEST(Sympy, OtherText) {
  for (const char* text : {"", "Symbol('s1')", "Symbol('s0'", "Pow(Symbol('s0'), Rational(1, 2))", "Integer(1) more",
                           "FloorDiv(Integer(4), Symbol('s0'))", "Add(", "Add(Integer(1))", "CeilDiv(Integer(4))",
                           "Integer(99999999999999999999)"}) {
    EXPECT_EQ(Sympy(text), "") << text;
  }
  EXPECT_EQ(Sympy(std::string(3000, 'A')), "");
}

// Each power of a power is four times as large.
TEST(Sympy, PowersOfPowersEnd) {
  std::string tower = "Symbol('s0')";
  for (int i = 0; i < 40; ++i) tower = "Pow(" + tower + ", Integer(4))";
  EXPECT_EQ(Sympy(tower), "");
  std::string quotients = "Symbol('s0')";
  for (int i = 0; i < 40; ++i) quotients = "CeilDiv(Integer(1), " + quotients + ")";
  EXPECT_EQ(Sympy(quotients), "");
}

}  // namespace
}  // namespace rvm::importing
