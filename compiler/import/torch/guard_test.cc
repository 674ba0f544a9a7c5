#include "compiler/import/torch/guard.h"

#include <gtest/gtest.h>

#include <string>

namespace rvm::torch {
namespace {

using Kind = GuardExpression::Kind;

// In Lisp's notation, with short names.
std::string Text(const GuardExpression& expression) {
  constexpr const char* kNames[] = {"",  "",   "",  "+",  "-", "*",  "//",  "%",  "min", "max",
                                    "=", "!=", "<", "<=", ">", ">=", "and", "or", "not"};
  if (expression.kind == Kind::kNumber) return std::to_string(expression.number);
  if (expression.kind == Kind::kInput) return expression.input;
  if (expression.kind == Kind::kExtent) return expression.input + "." + std::to_string(expression.number);
  std::string text = std::string("(") + kNames[static_cast<size_t>(expression.kind)];
  for (const GuardExpression& operand : expression.operands) text += " " + Text(operand);
  return text + ")";
}

std::string Read(std::string_view text) {
  std::optional<GuardExpression> guard = ParseGuard(text);
  return guard ? Text(*guard) : "none";
}

TEST(GuardTest, ReadsConditions) {
  EXPECT_EQ(Read("((L['x'].size()[0] + 2) // 4) * 3 % 5 == L['x'].size()[1] - 3"),
            "(= (% (* (// (+ x.0 2) 4) 3) 5) (- x.1 3))");
  EXPECT_EQ(Read("2 <= L['x'].size()[1]"), "(<= 2 x.1)");
  EXPECT_EQ(Read("L['n'] > -3"), "(> n -3)");
  EXPECT_EQ(Read("2 < L['x'].size()[0] <= 7"), "(and (< 2 x.0) (<= x.0 7))");
  EXPECT_EQ(Read("not L['n'] == 1 and L['n'] != 2 or (L['n'] >= 9)"), "(or (and (not (= n 1)) (!= n 2)) (>= n 9))");
  EXPECT_EQ(Read("max(L['n'], 3, 2) == 2 * L['m']**2"), "(= (max (max n 3) 2) (* 2 (* m m)))");
  EXPECT_EQ(Read("Mod(L['n'], 2) == -L['m']"), "(= (% n 2) (- 0 m))");
}

TEST(GuardTest, NamesNestedInputsAsGraphsDo) {
  EXPECT_EQ(Read("L['args'][1].size()[0] == L['kw']['a']['b'].size()[2]"), "(= args_1.0 kw_a_b.2)");
}

TEST(GuardTest, RefusesWhatIsNoConditionOnIntegers) {
  for (const char* text :
       {"", "L['x'].size()[0]", "1 == 2 == (3 == 3)", "L['x'].size()[-1] == 1", "L['x'].stride()[0] == 1",
        "1 // L['n'] == 0", "L['n'] % 0 == 0", "1 == 2 or 3", "not 3", "L['n'] == 1 more", "max(L['n']) == 1",
        "L['n'] ** 9 == 1", "isinstance(L['x'], int)", "L['n'] / 2 == 1", "L == 1", "L['x"}) {
    EXPECT_EQ(Read(text), "none") << text;
  }
  EXPECT_EQ(Read(std::string(3000, '(')), "none");
}

}  // namespace
}  // namespace rvm::torch
