#include "compiler/import/torch/expression.h"

#include <gtest/gtest.h>

#include <string>

namespace rvm::torch {
namespace {

std::string Extent(std::string_view text) {
  auto symbol = [](std::string_view name) -> std::optional<Dim> {
    return name == "s0" ? std::optional(Dim::Var(1, "n")) : std::nullopt;
  };
  std::optional<Dim> dim = ParseExtent(text, symbol);
  return dim ? dim->ToString() : "none";
}

TEST(ExpressionTest, ReadsSympy) {
  EXPECT_EQ(Extent("Integer(7)"), "7");
  EXPECT_EQ(Extent("Symbol('s0', positive=True, integer=True)"), "n");
  EXPECT_EQ(Extent("Add(Mul(Integer(2), Symbol('s0')), Integer(-1))"),
            (Dim(2) * Dim::Var(1, "n") + Dim(-1)).ToString());
  EXPECT_EQ(Extent("FloorDiv(Symbol('s0'), Integer(2))"), FloorDiv(Dim::Var(1, "n"), 2).ToString());
  EXPECT_EQ(Extent("Pow(Symbol('s0'), Integer(2))"), (Dim::Var(1, "n") * Dim::Var(1, "n")).ToString());
}

TEST(ExpressionTest, RefusesWhatADimCannotSay) {
  for (const char* text : {"", "Symbol('s1')", "Symbol('s0'", "Pow(Symbol('s0'), Rational(1, 2))", "Integer(1) more",
                           "FloorDiv(Integer(4), Symbol('s0'))", "Add(", "Integer(99999999999999999999)"}) {
    EXPECT_EQ(Extent(text), "none") << text;
  }
  EXPECT_EQ(Extent(std::string(3000, 'A')), "none");
}

}  // namespace
}  // namespace rvm::torch
