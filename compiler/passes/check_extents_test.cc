#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

TEST(CheckExtentsTest, WhatIsProvenStaysAsItIs) {
  const char* program =
      "def @main[n: ShapeVar](%x: Tensor[(n), int32], %k: int32) -> Tensor[(n), int32] {\n"
      "  if (%k == 0) {\n"
      "    %x\n"
      "  } else {\n"
      "    @main(%x + %x, %k - 1)\n"
      "  }\n"
      "}\n";
  EXPECT_EQ(After("check_extents", program, 0), program);
}

// Only the branch that is not proven: the other call stays a tail call.
TEST(CheckExtentsTest, ChecksStandInTheBranchesThatNeedThem) {
  EXPECT_EQ(After("check_extents",
                  "def @main(%x: Tensor[(n), int32], %y: Tensor[(?), int32], %k: int32) -> Tensor[(n), int32] {\n"
                  "  if (%k == 0) { %y } else { @main(%x, %y, %k - 1) }\n"
                  "}\n",
                  0),
            "def @main[n: ShapeVar](%x: Tensor[(n), int32], %y: Tensor[(?), int32], %k: int32) -> Tensor[(n), int32] "
            "{\n"
            "  if (%k == 0) {\n"
            "    check_extent(%y, extent(%x, axis=0), axis=0, what=\"axis 0 of the result of `@main`, declared `n`\")\n"
            "  } else {\n"
            "    @main(%x, %y, %k - 1)\n"
            "  }\n"
            "}\n");
}

}  // namespace
}  // namespace rvm::passes
