#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/static_twins.h"
#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

// A call of each `dyn.` operator on %x: Tensor[(2, 3, 4, 5), float32] whose other arguments are extents of %x.
struct Known {
  std::string_view op, call;
};
constexpr Known kKnown[] = {
    {"dyn.broadcast_to", "dyn.broadcast_to(%x, concatenate((stack((%two,)), shape_of(%x, dtype=\"int64\"))))"},
    {"dyn.expand_dims", "dyn.expand_dims(%x, %two)"},
    {"dyn.full", "dyn.full(1f, shape_of(%x))"},
    {"dyn.image.resize2d",
     "dyn.image.resize2d(%x, take(shape_of(%x), Constant([1, 2], (2), int64)) * 2, Constant([0f], (1), float32))"},
    {"dyn.nn.pad", "dyn.nn.pad(%x, reshape(tile(shape_of(%x), reps=[2]), newshape=[4, 2]), 0f)"},
    {"dyn.nn.upsampling", "dyn.nn.upsampling(%x, 2f, 3f)"},
    {"dyn.nn.upsampling3d", "dyn.nn.upsampling3d(expand_dims(%x, axis=0), 2f, 1f, 3f)"},
    {"dyn.one_hot", "dyn.one_hot(cast(%x, dtype=\"int32\"), 1f, 0f, %two + 1i64)"},
    {"dyn.ones", "dyn.ones(shape_of(%x))"},
    {"dyn.random.normal", "dyn.random.normal(%key, 0f, 1f, shape_of(%x))"},
    {"dyn.random.uniform", "dyn.random.uniform(%key, 0f, 1f, shape_of(%x))"},
    {"dyn.reshape", "dyn.reshape(%x, stack((%two * 3i64, floor_divide(ndarray_size(%x, dtype=\"int64\"), 6i64))))"},
    {"dyn.sparse_to_dense",
     "dyn.sparse_to_dense(Constant([[0, 1, 2, 3]], (1, 4), int64), 1f, 0f, shape_of(%x, dtype=\"int64\"))"},
    {"dyn.squeeze", "dyn.squeeze(expand_dims(%x, axis=2), stack((%two,)))"},
    {"dyn.strided_slice",
     "dyn.strided_slice(%x, stack((%two - 1i64,)), stack((maximum(%two, 1i64),)), ones(shape=[1], dtype=\"int64\"))"},
    {"dyn.tile", "dyn.tile(%x, where(equal(shape_of(%x), 3), ones(shape=[4], dtype=\"int32\"), shape_of(%x)))"},
    {"dyn.topk", "dyn.topk(%x, %two)"},
    {"dyn.zeros", "dyn.zeros(shape_of(%x))"},
};

// Returns whether the operator is a part of another one, which takes or gives the number of results.
bool IsPart(const ops::OpDef& op) {
  return std::any_of(ops::AllOps().begin(), ops::AllOps().end(),
                     [&](const ops::OpDef* other) { return other->count_op == op.name || other->fill_op == op.name; });
}

TEST(StaticShapes, EveryDynamicOperatorOfKnownOperandsBecomesItsTwin) {
  for (const ops::OpDef* op : ops::AllOps()) {
    if (!op->name.starts_with("dyn.") || IsPart(*op)) continue;
    const Known* known = std::find_if(std::begin(kKnown), std::end(kKnown), [&](auto& k) { return k.op == op->name; });
    ASSERT_NE(known, std::end(kKnown)) << op->name << " has no case";
    ASSERT_NE(ops::StaticTwinOf(*op), nullptr) << op->name << " has no twin";
    std::string text = After("static_shapes",
                             absl::StrCat("def @main(%x: Tensor[(2, 3, 4, 5), float32], %key: Tensor[(10), uint64]) {\n"
                                          "  let %two = extent(%x, axis=0);\n  ",
                                          Abseil(known->call), "\n}"),
                             1);
    EXPECT_EQ(text.find("dyn."), std::string::npos) << text;
    EXPECT_EQ(text.find("error"), std::string::npos) << text;
    EXPECT_NE(text.find(absl::StrCat(Abseil(ops::StaticTwinOf(*op)->name), "(")), std::string::npos) << text;
  }
}

// Calls of a function with named extents, and what the pass makes of each.
struct Symbolic {
  std::string_view call, expected;
};
constexpr Symbolic kSymbolic[] = {
    {"dyn.reshape(%x, stack((%n, 2i64, 4i64)))", "reshape(%x, newshape=[0, 2, 4]"},
    {"dyn.reshape(%x, stack((%n * 2i64, 4i64)))", "reshape(%x, newshape=[-1, 4]"},
    {"dyn.broadcast_to(expand_dims(%x, axis=1), stack((%n, 3i64, 8i64)))", "shape=[-1, 3, 8]"},
    {"dyn.strided_slice(%x, Constant([1], (1), int64), stack((%n,)), Constant([1], (1), int64))",
     "strided_slice(%x, begin=[1], end=[9223372036854775807]"},
    {"dyn.strided_slice(%z, Constant([0], (1), int64), stack((%n + 1i64,)), Constant([1], (1), int64))", "end=[-2]"},
    {"dyn.reshape(broadcast_to(expand_dims(%y, axis=1), shape=[-1, 4, -1]), stack((%n * 4i64, %m)))",
     "newshape=[-3, 0]"},
    // A product of two extents, which a parameter has as axes.
    {"dyn.reshape(reshape(%y, newshape=[-1]), stack((%n, %m)))", "reshape_like"},
    {"arange(0i64, %n, 1i64)", "arange_fill(0i64, %n, 1i64, %n"},
    // Extents that the type of the operand has already, and one that it has not.
    {"check_extent(%x, %n, axis=0)", "  %x\n}"},
    {"check_extent(%x, %m, axis=0)", "check_extent("},
    // Extents that attributes cannot express.
    {"dyn.ones(stack((%n, %m)))", "dyn.ones("},
    {"dyn.broadcast_to(%x, stack((%m, %n, 8i64)))", "dyn.broadcast_to("},
    {"dyn.reshape(%w, stack((%n + %m, 1i64)))", "dyn.reshape("},
    {"dyn.strided_slice(%x, stack((%n - 1i64,)), stack((%n,)), Constant([1], (1), int64))", "dyn.strided_slice("},
};

TEST(StaticShapes, AttributesThatStandForExtents) {
  for (const Symbolic& c : kSymbolic) {
    std::string text = After("static_shapes",
                             absl::StrCat("def @main(%x: Tensor[(n, 8), float32], %y: Tensor[(n, m), float32],\n"
                                          "          %z: Tensor[(n + 3), float32], %w: Tensor[(k), float32]) {\n"
                                          "  let %n = extent(%y, axis=0);\n  let %m = extent(%y, axis=1);\n  ",
                                          Abseil(c.call), "\n}"),
                             1);
    EXPECT_NE(text.find(c.expected), std::string::npos) << c.call << "\n" << text;
  }
}

// An instance for extents that a caller knows has shapes of these extents, without checks.
TEST(StaticShapes, InstancesOfFunctions) {
  std::string text = After("static_shapes", R"(
def @f[n: ShapeVar, m: ShapeVar](%x: Tensor[(n, 1, 8), float32], %y: Tensor[(m), float32]) {
  let %rows = extent(%y, axis=0) + 2i64;
  let %shape = stack((extent(%x, axis=0), %rows, 8i64));
  dyn.broadcast_to(%x, %shape)
}
def @main(%x: Tensor[(?, 1, 8), float32], %y: Tensor[(1), float32], %z: Tensor[(5), float32]) {
  (@f(%x, %y), @f(%x, %z))
}
)",
                           1);
  EXPECT_NE(text.find("shape=[-1, 3, 8]"), std::string::npos) << text;
  EXPECT_NE(text.find("shape=[-1, 7, 8]"), std::string::npos) << text;
  EXPECT_EQ(text.find("check_extent"), std::string::npos) << text;
}

}  // namespace
}  // namespace rvm::passes
