#include <string>

#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

// Programs that stay as they are.
constexpr KeptProgram kKept[] = {
    {"OutermostAxis", R"(
def @main(%n: int32, %c: Tensor[(?, 16), float32], %x: Tensor[(1, 16), float32]) -> Tensor[(?, 16), float32] {
  if (%n == 0) { %c } else { @main(%n - 1, concatenate((%c, %x), axis=0), %x) }
}
)"},
    {"BehindAxesOfOne", R"(
def @main(%n: int32, %c: Tensor[(1, ?, 16), float32], %x: Tensor[(1, 1, 16), float32]) -> Tensor[(1, ?, 16), float32] {
  if (%n == 0) { %c } else { @main(%n - 1, concatenate((%c, %x), axis=1), %x) }
}
)"},
    {"LastAxis", R"(
def @main(%n: int32, %c: Tensor[(8, ?), float32], %x: Tensor[(8, 1), float32]) -> Tensor[(8, ?), float32] {
  if (%n == 0) { %c } else { @main(%n - 1, concatenate((%c, %x), axis=1), %x) }
}
)"},
    {"ShortRows", R"(
def @main(%n: int32, %c: Tensor[(8, ?, 4), float32], %x: Tensor[(8, 1, 4), float32]) -> Tensor[(8, ?, 4), float32] {
  if (%n == 0) { %c } else { @main(%n - 1, concatenate((%c, %x), axis=1), %x) }
}
)"},
    {"WithoutALoop", R"(
def @main(%c: Tensor[(8, ?, 16), float32], %x: Tensor[(8, 1, 16), float32]) { concatenate((%c, %x), axis=1) }
)"},
    {"WrittenInFront", R"(
def @main(%n: int32, %c: Tensor[(8, ?, 16), float32], %x: Tensor[(8, 1, 16), float32]) -> Tensor[(8, ?, 16), float32] {
  if (%n == 0) { %c } else { @main(%n - 1, concatenate((%x, %c), axis=1), %x) }
}
)"},
    {"TwoAxes", R"(
def @main(%n: int32, %c: Tensor[(4, ?, ?, 16), float32], %x: Tensor[(4, ?, 1, 16), float32]) -> Tensor[(4, ?, ?, 16), float32] {
  if (%n == 0) { %c } else { @main(%n - 1, concatenate((concatenate((%c, %c), axis=1), %x), axis=2), %x) }
}
)"},
    {"KeptInAList", R"(
def @main(%n: int32, %l: List[Tensor[(8, ?, 16), float32]], %x: Tensor[(8, 1, 16), float32]) -> List[Tensor[(8, ?, 16), float32]] {
  if (%n == 0) { %l } else {
    match (%l) { Cons(%c, _) => @main(%n - 1, Cons(concatenate((%c, %x), axis=1), %l), %x), Nil => %l }
  }
}
)"},
};

class LayOutAppendsKept : public KeptTest {};

TEST_P(LayOutAppendsKept, Is) { Check("lay_out_appends", "unroll_recursion"); }

INSTANTIATE_TEST_SUITE_P(Programs, LayOutAppendsKept, testing::ValuesIn(kKept), NameOfCase);

// Each of two caches of a loop has the layout of its own appends.
TEST(LayOutAppendsTest, LayoutsAreThoseOfCycles) {
  std::string text = After("lay_out_appends", R"(
def @main(%n: int32, %a: Tensor[(2, ?, 16), float32], %b: Tensor[(2, 3, ?, 8), float32], %x: Tensor[(2, 1, 16), float32],
          %y: Tensor[(2, 3, 1, 8), float32]) -> float32 {
  if (%n == 0) { sum(%a) + sum(%b) } else {
    @main(%n - 1, concatenate((%a, %x), axis=1), concatenate((%b, %y), axis=2), %x, %y)
  }
}
)",
                           2);
  EXPECT_NE(text.find("%a_1: Tensor[(?, 2, 16), float32]"), std::string::npos) << text;
  EXPECT_NE(text.find("%b_1: Tensor[(?, 2, 3, 8), float32]"), std::string::npos) << text;
}

}  // namespace
}  // namespace rvm::passes
