#include "compiler/import/extent_expression.h"

#include <optional>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace rvm::importing {
namespace {

// The text of the dim; "" if `text` is no expression.
std::string Parsed(std::string_view text) {
  std::optional<Dim> dim = ParseExtentExpression(text, [](std::string_view name) -> std::optional<Dim> {
    if (name == "n") return Dim::Var(1, "n");
    if (name == "past") return Dim::Var(2, "past");
    if (name == "two") return Dim(2);
    return std::nullopt;
  });
  return dim ? dim->ToString() : "";
}

TEST(ExtentExpression, Operations) {
  EXPECT_EQ(Parsed("past + n"), "past + n");
  EXPECT_EQ(Parsed("past+1"), "past + 1");
  EXPECT_EQ(Parsed("2*n"), "n * 2");
  EXPECT_EQ(Parsed("n // 2"), "n / 2");
  EXPECT_EQ(Parsed("n % 4"), "mod(n, 4)");
  EXPECT_EQ(Parsed("(n + past)*two"), "(n + past) * 2");
  EXPECT_EQ(Parsed("n*2 + past*3"), "(n * 2) + (past * 3)");
  EXPECT_EQ(Parsed("n - 1"), "n - 1");
  EXPECT_EQ(Parsed("n-1"), "n - 1");
  EXPECT_EQ(Parsed("past - n"), "past - n");
  EXPECT_EQ(Parsed("(past + n) - n"), "(past + n) - n");
}

TEST(ExtentExpression, NamesAndOtherText) {
  for (std::string_view text : {"n", "7", "", "past-n", "n + m", "n / 2", "n ** 2", "n + ", "+ n", "(n + 1", "n + 1)",
                                "n // 0", "n // past", "max(n, 1)", "n n", "Add(n, 1)", "n + 99999999999999999999"}) {
    EXPECT_EQ(Parsed(text), "") << text;
  }
  EXPECT_EQ(Parsed(std::string(100, '(') + "n + 1" + std::string(100, ')')), "");
}

}  // namespace
}  // namespace rvm::importing
