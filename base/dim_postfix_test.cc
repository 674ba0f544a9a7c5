#include "base/dim_postfix.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace rvm {
namespace {

TEST(DimPostfix, ReadsWhatItWrites) {
  Dim n = Dim::Var(0, "n"), m = Dim::Var(1, "m");
  const std::vector<int64_t> values = {7, 3};
  const Dim dims[] = {5,
                      n,
                      n * 768 + m,
                      n - m,
                      FloorDiv(n + 2, 2),
                      FloorMod(n, m),
                      Max(n, 2) * Min(m, n),
                      Broadcast(m, n),
                      (n + 1) * (m + 2)};
  for (const Dim& dim : dims) {
    std::optional<std::string> text = DimToPostfix(dim);
    ASSERT_TRUE(text.has_value()) << dim.ToString();
    std::optional<int64_t> expected =
        EvaluateDim(dim, [&](const Dim& leaf) { return values[static_cast<size_t>(leaf.id())]; });
    EXPECT_EQ(EvaluatePostfix(*text, values), expected) << *text;
  }
  EXPECT_EQ(DimToPostfix(n * 768 + m), "s0 768 * s1 +");
  EXPECT_EQ(DimToPostfix(n + Dim::Any()), std::nullopt);
}

TEST(DimPostfix, RefusesOtherTexts) {
  const std::vector<int64_t> values = {std::numeric_limits<int64_t>::max()};
  for (const char* text : {"", "+", "1 +", "1 2", "s", "s1", "sx", "s-1", "1 2 ?", "s0 2 *", "1  2 +"}) {
    EXPECT_EQ(EvaluatePostfix(text, values), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace rvm
