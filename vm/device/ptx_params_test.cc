#include "vm/device/ptx_params.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rvm::device {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(UnusedParams, AreDeclaredAndNotNamedAgain) {
  EXPECT_THAT(UnusedParams(R"(
.visible .entry k1(
	.param .u64 k1_param_0,
	.param .u64 k1_param_1,
	.param .u64 k1_param_11
)
{
	ld.param.u64 	%rd1, [k1_param_11];
	ret;
}
.visible .entry k1_param_0_x(
	.param .u64 k1_param_0_x_param_0
)
{
	ld.param.u64 	%rd1, [k1_param_0_x_param_0+4];
}
.visible .entry all(.param .u64 all_param_0) { ld.param.u64 %rd1, [all_param_0]; }
.visible .entry last(.param .u64 last_param_0, .param .u64 last_param_1)"),
              UnorderedElementsAre(Pair("k1", ElementsAre(0, 1)), Pair("last", ElementsAre(0, 1))));
  EXPECT_TRUE(UnusedParams("").empty());
  EXPECT_TRUE(UnusedParams("x_param_ y_param_99999999999999999999999 z_param_1z").empty());
}

}  // namespace
}  // namespace rvm::device
