#include <string>

#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

constexpr KeptProgram kKept[] = {
    {"AFunctionThatCostsLessThanALookup", R"(
def @main(%x: Tensor[(3), uint8]) {
  cast(clip(cast(%x, dtype="float32") * 2f + 1f, a_min=0f, a_max=255f), dtype="uint8")
}
)"},
    {"AFunctionOfTwoBytes", R"(
def @main(%x: Tensor[(3), uint8], %y: Tensor[(3), uint8]) {
  cast(sigmoid(cast(%x, dtype="float32")) * sigmoid(cast(%y, dtype="float32")) * 255f, dtype="uint8")
}
)"},
    {"AConstantForEachElement", R"(
def @main(%x: Tensor[(2), uint8]) {
  cast(sigmoid(cast(%x, dtype="float32")) * sigmoid(Constant([1f, 2f], (2), float32)) * 255f, dtype="uint8")
}
)"},
    {"AByteThatIsBroadcast", R"(
def @main(%x: Tensor[(3), uint8]) {
  cast(sigmoid(cast(%x, dtype="float32") + zeros(shape=[2, 1], dtype="float32")) * 255f, dtype="uint8")
}
)"},
    {"AResultOfFloats", R"(
def @main(%x: Tensor[(3), uint8]) { tanh(sigmoid(cast(%x, dtype="float32"))) }
)"},
    {"AFunctionOfShorts", R"(
def @main(%x: Tensor[(3), int16]) { cast(sigmoid(tanh(cast(%x, dtype="float32"))) * 255f, dtype="uint8") }
)"},
};

class TabulateBytesKept : public KeptTest {};
TEST_P(TabulateBytesKept, IsLeftAsItIs) { Check("tabulate_bytes", "hoist_loop_invariants"); }
INSTANTIATE_TEST_SUITE_P(All, TabulateBytesKept, testing::ValuesIn(kKept), NameOfCase);

std::string Tabulated(const char* source) { return After("tabulate_bytes", source, 2); }

// The first table of SiLU goes into that of the product.
TEST(TabulateBytesTest, OneTableForAllStepsOfAFunction) {
  const std::string text = Tabulated(R"(
def @main(%x: Tensor[(n), uint8]) {
  let %f = (cast(%x, dtype="float32") - 128f) * 0.05f;
  let %s = cast(sigmoid(%f) * 255f, dtype="uint8");
  cast(%f * cast(%s, dtype="float32") / 10f, dtype="uint8")
}
)");
  EXPECT_EQ(text.find("sigmoid"), text.npos) << text;
  EXPECT_EQ(text.find("take"), text.rfind("take")) << text;
  EXPECT_NE(text.find(", (256), uint8), %x, axis=0"), text.npos) << text;
}

// A table of the program goes into that of the function, as in x * sigmoid(x) of integers.
TEST(TabulateBytesTest, TablesOfTheProgramAreSteps) {
  const std::string text = Tabulated(R"(
def @main(%x: Tensor[(n), int8]) {
  let %s = take(arange(0, 256, 1, dtype="uint8"), cast(%x, dtype="uint8"), axis=0);
  let %p = fixed_point_multiply(cast(%x, dtype="int32") * cast(%s, dtype="int32"), multiplier=1073741824, shift=1);
  cast(clip(right_shift(right_shift(%p + 2, 1) + 3, 4), a_min=-128f, a_max=127f), dtype="int8")
}
)");
  EXPECT_EQ(text.find("fixed_point"), text.npos) << text;
  EXPECT_EQ(text.find("take"), text.rfind("take")) << text;
}

TEST(TabulateBytesTest, StepsWithOtherUsesStay) {
  const std::string text = Tabulated(R"(
def @main(%x: Tensor[(2, 3), int8]) {
  let %f = tanh(sigmoid(cast(%x, dtype="float32")));
  (cast(%f * 127f, dtype="int8"), %f)
}
)");
  EXPECT_NE(text.find("tanh"), text.npos) << text;
  EXPECT_NE(text.find("cast(%x, dtype=\"uint8\")"), text.npos) << text;
  EXPECT_NE(text.find("take"), text.npos) << text;
}

}  // namespace
}  // namespace rvm::passes
