#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

// Programs that stay as they are.
constexpr KeptProgram kKept[] = {
    {"ANegativeScaleAfterRelu", R"(
def @main(%x: Tensor[(1, 2), float32]) {
  nn.relu(nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32))) * Constant([1f, -2f], (2), float32)
}
)"},
    {"AScaleThatIsComputed", R"(
def @main(%x: Tensor[(1, 2), float32], %s: float32) {
  nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32)) * %s
}
)"},
    {"WeightsThatAreComputed", R"(
def @main(%x: Tensor[(1, 2), float32], %w: Tensor[(2, 2), float32]) {
  nn.dense(%x, %w) * Constant([1f, 2f], (2), float32)
}
)"},
    {"AResultWithOtherUses", R"(
def @main(%x: Tensor[(1, 2), float32]) {
  let %y = nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32));
  (%y * 2f, %y)
}
)"},
    {"AScaledOperandWithOtherUses", R"(
def @main(%x: Tensor[(1, 2), float32]) {
  let %y = %x * 2f;
  (nn.dense(%y, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32)), %y)
}
)"},
    {"AScaleOutsideTheBranch", R"(
def @main(%x: Tensor[(1, 2), float32], %b: bool) {
  let %y = nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32));
  if (%b) { %y * 2f } else { zeros(shape=[1, 2], dtype="float32") }
}
)"},
    {"Float16", R"(
def @main(%x: Tensor[(1, 2), float16]) {
  nn.dense(%x, Constant([[1f16, 2f16], [3f16, 4f16]], (2, 2), float16)) * 3f16
}
)"},
    {"Integers", R"(
def @main(%x: Tensor[(1, 2), int32]) { nn.dense(%x, Constant([[1, 2], [3, 4]], (2, 2), int32)) * 3 }
)"},
    {"WeightsThatOverflow", R"(
def @main(%x: Tensor[(1, 2), float32]) {
  nn.dense(%x, Constant([[1f, 2e30f], [3f, 4f]], (2, 2), float32)) * 1e30f
}
)"},
    {"WeightsThatUnderflow", R"(
def @main(%x: Tensor[(1, 2), float32]) {
  nn.dense(%x, Constant([[1f, 2e-30f], [3f, 4f]], (2, 2), float32)) * 1e-30f
}
)"},
    {"RowsOfADenseLayer", R"(
def @main(%x: Tensor[(2, 2), float32]) {
  nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32)) * Constant([[1f], [2f]], (2, 1), float32)
}
)"},
    {"ColumnsOfAConvolution", R"(
def @main(%x: Tensor[(1, 1, 2), float32]) {
  nn.conv1d(%x, Constant([[[1f]], [[2f]]], (2, 1, 1), float32)) * Constant([1f, 2f], (2), float32)
}
)"},
    {"AScalePerChannelThroughAView", R"(
def @main(%x: Tensor[(4, 2), float32]) {
  let %y = nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32));
  reshape(%y, newshape=[2, 4]) * Constant([1f, 2f, 1f, 2f], (4), float32)
}
)"},
    {"AShiftBeforeALayer", R"(
def @main(%x: Tensor[(1, 2), float32]) {
  nn.dense(%x * 2f + 1f, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32))
}
)"},
    {"AnOperandOfNoProduct", R"(
def @main() { zeros(shape=[200, 200], dtype="float32") * 2f }
)"},
    {"TheSecondOperandIfTheFirstIsLarger", R"(
def @main(%a: Tensor[(8, 2), float32], %b: Tensor[(2, 3), float32]) { nn.matmul(%a, %b * 2f) }
)"},
    {"TheSecondOperandByVectors", R"(
def @main(%a: Tensor[(n, 2), float32], %b: Tensor[(2, m), float32]) {
  nn.matmul(%a, %b * Constant([[1f], [2f]], (2, 1), float32))
}
)"},
    {"ASecondOperandWithOtherUses", R"(
def @main(%a: Tensor[(n, 2), float32], %b: Tensor[(2, m), float32]) {
  let %c = %b * 2f;
  (nn.matmul(%a, %c), %c)
}
)"},
    {"FactorsThatUnderflow", R"(
def @main(%a: Tensor[(n, 2), float32], %b: Tensor[(2, m), float32]) { nn.matmul(%a * 1e-30f, %b * 1e-30f) }
)"},
    {"TwoScalesOfFloats", R"(
def @main(%x: Tensor[(1, 2), float32]) { %x * 2f / 3f }
)"},
    {"TwoScalesOfIntegersAlongTwoAxes", R"(
def @main(%x: Tensor[(2, 2), int32]) {
  cast(%x, dtype="float32") * Constant([2f, 3f], (2), float32) * Constant([[4f], [5f]], (2, 1), float32)
}
)"},
    {"AScaleOfIntegersWithOtherUses", R"(
def @main(%x: Tensor[(1, 2), int32]) {
  let %y = cast(%x, dtype="float32") * 2f;
  (%y / 4f, %y)
}
)"},
    {"LargeWeightsThatAreShared", R"(
def @main(%x: Tensor[(1, 100), float32]) {
  let %w = ones(shape=[100, 100], dtype="float32");
  (nn.dense(%x, %w) * 2f, nn.dense(tanh(%x), %w))
}
)"},
};

using FoldNoScale = KeptTest;

TEST_P(FoldNoScale, Prints) { Check("fold_scales", "hoist_loop_invariants"); }

INSTANTIATE_TEST_SUITE_P(Programs, FoldNoScale, testing::ValuesIn(kKept), NameOfCase);

constexpr PassCase kCases[] = {
    {"BackwardThroughBiasAndRelu", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(1, 2), float32]) {
  let %y = nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32)) + Constant([5f, 6f], (2), float32);
  nn.relu(%y - 1f) * Constant([2f, 0.5f], (2), float32)
}
)",
     R"(def @main(%x: Tensor[(1, 2), float32]) {
  let %t = nn.dense(%x, Constant([2f, 4f, 1.5f, 2f], (2, 2), float32), units=None, out_dtype="");
  let %y = %t + Constant([10f, 3f], (2), float32);
  let %t_1 = %y - Constant([2f, 0.5f], (2), float32);
  nn.relu(%t_1)
}
)"},
    {"BackwardThroughPooling", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(1, 1, 4), float64]) {
  let %y = nn.conv1d(%x, Constant([[[1f64]], [[2f64]]], (2, 1, 1), float64));
  nn.avg_pool1d(nn.max_pool1d(%y, pool_size=[2]), pool_size=[2]) * Constant([[2f64], [4f64]], (2, 1), float64)
}
)",
     R"(def @main(%x: Tensor[(1, 1, 4), float64]) {
  let %y = nn.conv1d(%x, Constant([2f64, 8f64], (2, 1, 1), float64), strides=[1], padding=[0], dilation=[1], groups=1, channels=None, kernel_size=None, data_layout="NCW", kernel_layout="OIW", out_layout="", out_dtype="");
  let %t = nn.max_pool1d(%y, pool_size=[2], strides=[1], dilation=[1], padding=[0], layout="NCW", out_layout="", ceil_mode=False);
  nn.avg_pool1d(%t, pool_size=[2], strides=[1], dilation=[1], padding=[0], layout="NCW", out_layout="", ceil_mode=False, count_include_pad=False)
}
)"},
    {"KeysBesideScaledQueries", "fold_scales", 2,
     R"(
def @main(%q: Tensor[(4, n, 8), float32], %k: Tensor[(4, m, 8), float32]) {
  nn.batch_matmul(%q * 0.5f, transpose(%k, axes=[0, 2, 1]) / 2f, transpose_b=False)
}
)",
     R"(def @main[n: ShapeVar, m: ShapeVar](%q: Tensor[(4, n, 8), float32], %k: Tensor[(4, m, 8), float32]) {
  let %t = %q * Constant([0.25f], (1), float32);
  let %t_1 = transpose(%k, axes=[0, 2, 1]);
  nn.batch_matmul(%t, %t_1, transpose_b=False, out_dtype="", transpose_a=False)
}
)"},
    {"KeysThroughAView", "fold_scales", 2,
     R"(
def @main(%q: Tensor[(n, 4, 8), float32], %k: Tensor[(n, m, 8), float64]) {
  nn.matmul(cast(%q, dtype="float64"), transpose(%k * 4f64, axes=[0, 2, 1]))
}
)",
     R"(def @main[n: ShapeVar, m: ShapeVar](%q: Tensor[(n, 4, 8), float32], %k: Tensor[(n, m, 8), float64]) {
  let %t = cast(%q, dtype="float64");
  let %t_1 = transpose(%k, axes=[0, 2, 1]);
  let %scaled = %t * Constant([4f64], (1), float64);
  nn.matmul(%scaled, %t_1, units=None, out_dtype="", transpose_a=False, transpose_b=False)
}
)"},
    {"KeysBesideALayer", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(2, 2), float32], %k: Tensor[(n, 2), float32]) {
  nn.matmul(nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32)), %k * 2f, transpose_b=True)
}
)",
     R"(def @main[n: ShapeVar](%x: Tensor[(2, 2), float32], %k: Tensor[(n, 2), float32]) {
  let %t = nn.dense(%x, Constant([2f, 4f, 6f, 8f], (2, 2), float32), units=None, out_dtype="");
  nn.matmul(%t, %k, transpose_b=True, units=None, out_dtype="", transpose_a=False)
}
)"},
    {"ADivisionOfScores", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(2, 2), float32], %k: Tensor[(1, 2, 2), float32]) {
  let %q = nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32));
  let %heads = transpose(reshape(%q, newshape=[2, 1, 2]), axes=[1, 0, 2]);
  nn.softmax(nn.batch_matmul(%heads, %k) / 8f)
}
)",
     R"(def @main(%x: Tensor[(2, 2), float32], %k: Tensor[(1, 2, 2), float32]) {
  let %q = nn.dense(%x, Constant([0.125f, 0.25f, 0.375f, 0.5f], (2, 2), float32), units=None, out_dtype="");
  let %t = reshape(%q, newshape=[2, 1, 2], allowzero=0);
  let %heads = transpose(%t, axes=[1, 0, 2]);
  let %t_1 = nn.batch_matmul(%heads, %k, out_dtype="", transpose_a=False, transpose_b=False);
  nn.softmax(%t_1, axis=-1, masked=False)
}
)"},
    {"ForwardIntoTheNextLayer", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(1, 2, 3), float32]) {
  let %y = nn.relu(%x * Constant([[2f], [4f]], (2, 1), float32));
  nn.conv1d(%y, Constant([[[1f], [2f]], [[3f], [4f]]], (2, 2, 1), float32), padding=[1])
}
)",
     R"(def @main(%x: Tensor[(1, 2, 3), float32]) {
  let %y = nn.relu(%x);
  nn.conv1d(%y, Constant([2f, 8f, 6f, 16f], (2, 2, 1), float32), padding=[1], strides=[1], dilation=[1], groups=1, channels=None, kernel_size=None, data_layout="NCW", kernel_layout="OIW", out_layout="", out_dtype="")
}
)"},
    {"ForwardIntoADepthwiseLayer", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(1, 2, 3), float32]) {
  let %y = %x * Constant([[2f], [4f]], (2, 1), float32);
  nn.conv1d(%y, Constant([[[1f, 2f]], [[3f, 4f]]], (2, 1, 2), float32), groups=2)
}
)",
     R"(def @main(%x: Tensor[(1, 2, 3), float32]) {
  nn.conv1d(%x, Constant([2f, 4f, 12f, 16f], (2, 1, 2), float32), groups=2, strides=[1], padding=[0], dilation=[1], channels=None, kernel_size=None, data_layout="NCW", kernel_layout="OIW", out_layout="", out_dtype="")
}
)"},
    {"ANormalisationWithTwoUses", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(1, 2), float32]) {
  let %y = nn.dense(%x, Constant([[1f, 2f], [3f, 4f]], (2, 2), float32));
  let %n = nn.batch_norm(%y, Constant([2f, 3f], (2), float32), Constant([0.5f, 0f], (2), float32), Constant([1f, 0f], (2), float32), Constant([0.25f, 4f], (2), float32), epsilon=0f);
  (nn.relu(%n.0), tanh(%n.0))
}
)",
     R"(def @main(%x: Tensor[(1, 2), float32]) {
  let %y = nn.dense(%x, Constant([4f, 8f, 4.5f, 6f], (2, 2), float32), units=None, out_dtype="");
  let %n = %y + Constant([-3.5f, 0f], (2), float32);
  let %t = nn.relu(%n);
  let %t_1 = tanh(%n);
  (%t, %t_1)
}
)"},
    {"ScalesOfIntegers", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(1, 2), int32]) {
  let %y = cast(%x, dtype="float32") * Constant([2f, 4f], (2), float32);
  round((%y + Constant([8f, 16f], (2), float32)) / 4f)
}
)",
     R"(def @main(%x: Tensor[(1, 2), int32]) {
  let %t = cast(%x, dtype="float32");
  let %y = %t * Constant([0.5f, 1f], (2), float32);
  let %t_1 = %y + Constant([2f, 4f], (2), float32);
  round(%t_1)
}
)"},
    {"AScaleOfIntegersByChannels", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(1, 2, 3), int32]) {
  cast(%x, dtype="float32") / 2f * Constant([[2f], [4f]], (2, 1), float32)
}
)",
     R"(def @main(%x: Tensor[(1, 2, 3), int32]) {
  let %t = cast(%x, dtype="float32");
  %t * Constant([1f, 2f], (2, 1), float32)
}
)"},
    {"ColumnsOfAProductOfMatrices", "fold_scales", 2,
     R"(
def @main(%x: Tensor[(3, 2), float32]) {
  let %y = nn.matmul(%x * Constant([2f, 4f], (2), float32), Constant([[1f, 2f], [3f, 4f]], (2, 2), float32));
  %y * Constant([1f, 10f], (2), float32)
}
)",
     R"(def @main(%x: Tensor[(3, 2), float32]) {
  nn.matmul(%x, Constant([2f, 40f, 12f, 160f], (2, 2), float32), units=None, out_dtype="", transpose_a=False, transpose_b=False)
}
)"},
};

using FoldScalesTest = PassTest;

TEST_P(FoldScalesTest, Prints) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, FoldScalesTest, testing::ValuesIn(kCases), NameOfCase);

}  // namespace
}  // namespace rvm::passes
