#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

constexpr PassCase kCases[] = {
    {"O0EachOperatorAlone", "fuse_ops", 0,
     R"(
def @main(%x: Tensor[(4), float32], %n: int32) { (tanh(add(%x, 1f)), %n + 1) }
)",
     R"(def @main(%x: Tensor[(4), float32], %n: int32) {
  let %t = fn (%x_1: Tensor[(4), float32], Primitive=1) {
    let %t_1 = %x_1 + 1f;
    %t_1
  }(%x);
  let %t_2 = fn (%t_3: Tensor[(4), float32], Primitive=1) {
    let %t_4 = tanh(%t_3);
    %t_4
  }(%t);
  let %t_5 = %n + 1;
  (%t_2, %t_5)
}
)"},
    {"O1ChainsOfElementwise", "fuse_ops", 1,
     R"(
def @main(%x: Tensor[(4), float32]) { multiply(tanh(add(%x, 1f)), %x) }
)",
     R"(def @main(%x: Tensor[(4), float32]) {
  fn (%x_1: Tensor[(4), float32], Primitive=1) {
    let %t = %x_1 + 1f;
    let %t_1 = tanh(%t);
    let %t_2 = %t_1 * %x_1;
    %t_2
  }(%x)
}
)"},
    {"O1ReductionTakesProducers", "fuse_ops", 1,
     R"(
def @main(%x: Tensor[(4, 5), float32]) { exp(sum(multiply(%x, %x), axis=[1])) }
)",
     R"(def @main(%x: Tensor[(4, 5), float32]) {
  fn (%x_1: Tensor[(4, 5), float32], Primitive=1) {
    let %t = %x_1 * %x_1;
    let %t_1 = sum(%t, axis=[1], keepdims=False, exclude=False);
    let %t_2 = exp(%t_1);
    %t_2
  }(%x)
}
)"},
    {"O1ContractionTakesEpilogueOnly", "fuse_ops", 1,
     R"(
def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(16, 8), float32], %b: Tensor[(16), float32]) {
  nn.relu(nn.bias_add(nn.dense(tanh(%x), %w), %b))
}
)",
     R"(def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(16, 8), float32], %b: Tensor[(16), float32]) {
  let %t = fn (%x_1: Tensor[(4, 8), float32], Primitive=1) {
    let %t_1 = tanh(%x_1);
    %t_1
  }(%x);
  fn (%t_2: Tensor[(4, 8), float32], %w_1: Tensor[(16, 8), float32], %b_1: Tensor[(16), float32], Primitive=1) {
    let %t_3 = nn.dense(%t_2, %w_1, units=None, out_dtype="");
    let %t_4 = nn.bias_add(%t_3, %b_1, axis=1);
    let %t_5 = nn.relu(%t_4);
    %t_5
  }(%t, %w, %b)
}
)"},
    {"O1OneContractionPerKernel", "fuse_ops", 1,
     R"(
def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(16, 8), float32], %v: Tensor[(16, 8), float32]) {
  add(nn.dense(%x, %w), nn.dense(%x, %v))
}
)",
     R"(def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(16, 8), float32], %v: Tensor[(16, 8), float32]) {
  let %t = fn (%x_1: Tensor[(4, 8), float32], %w_1: Tensor[(16, 8), float32], Primitive=1) {
    let %t_1 = nn.dense(%x_1, %w_1, units=None, out_dtype="");
    %t_1
  }(%x, %w);
  fn (%x_2: Tensor[(4, 8), float32], %v_1: Tensor[(16, 8), float32], %t_2: Tensor[(4, 16), float32], Primitive=1) {
    let %t_3 = nn.dense(%x_2, %v_1, units=None, out_dtype="");
    let %t_4 = %t_2 + %t_3;
    %t_4
  }(%x, %v, %t)
}
)"},
    {"O2WholeCell", "fuse_ops", 2,
     R"(
def @main(%x: Tensor[(1, 8), float32], %h: Tensor[(1, 8), float32], %w: Tensor[(16, 8), float32], %v: Tensor[(16, 8), float32]) {
  let %g = split(add(nn.dense(%x, %w), nn.dense(%h, %v)), indices_or_sections=2, axis=1);
  let %z = sigmoid(%g.0);
  add(multiply(%z, %h), multiply(subtract(1f, %z), tanh(%g.1)))
}
)",
     R"(def @main(
    %x: Tensor[(1, 8), float32],
    %h: Tensor[(1, 8), float32],
    %w: Tensor[(16, 8), float32],
    %v: Tensor[(16, 8), float32]
) {
  fn (
      %x_1: Tensor[(1, 8), float32],
      %w_1: Tensor[(16, 8), float32],
      %h_1: Tensor[(1, 8), float32],
      %v_1: Tensor[(16, 8), float32], Primitive=1
  ) {
    let %t = nn.dense(%x_1, %w_1, units=None, out_dtype="");
    let %t_1 = nn.dense(%h_1, %v_1, units=None, out_dtype="");
    let %t_2 = %t + %t_1;
    let %g = split(%t_2, indices_or_sections=2, axis=1);
    let %t_3 = %g.0;
    let %t_4 = %g.1;
    let %z = sigmoid(%t_3);
    let %t_5 = %z * %h_1;
    let %t_6 = 1f - %z;
    let %t_7 = tanh(%t_4);
    let %t_8 = %t_6 * %t_7;
    let %t_9 = %t_5 + %t_8;
    %t_9
  }(%x, %w, %h, %v)
}
)"},
    {"ResultsAreProjectedRightBehind", "fuse_ops", 1,
     R"(
def @main(%x: Tensor[(4), float32]) { let %a = tanh(%x); let %b = exp(%a); (%a, %b) }
)",
     R"(def @main(%x: Tensor[(4), float32]) {
  let %t = fn (%x_1: Tensor[(4), float32], Primitive=1) {
    let %a = tanh(%x_1);
    let %b = exp(%a);
    (%a, %b)
  }(%x);
  let %a_1 = %t.0;
  let %b_1 = %t.1;
  (%a_1, %b_1)
}
)"},
    {"TuplesOfOperators", "fuse_ops", 0,
     R"(
def @main(%x: Tensor[(4, 6), float32]) {
  let %t = split(%x, indices_or_sections=3, axis=1);
  (%t.0, %t.0, %t.2)
}
)",
     R"(def @main(%x: Tensor[(4, 6), float32]) {
  let %t = fn (%x_1: Tensor[(4, 6), float32], Primitive=1) {
    let %t_1 = split(%x_1, indices_or_sections=3, axis=1);
    let %t_2 = %t_1.0;
    let %t_3 = %t_1.1;
    let %t_4 = %t_1.2;
    (%t_2, %t_4)
  }(%x);
  let %t_5 = %t.0;
  let %t_6 = %t.1;
  (%t_5, %t_5, %t_6)
}
)"},
    {"TuplesOfOperatorsUsedAsAWhole", "fuse_ops", 1,
     R"(
def @main(%x: Tensor[(4, 6), float32], %c: bool) {
  let %t = split(%x, indices_or_sections=2, axis=1);
  let %a = tanh(%t.0);
  (%t, if (%c) { %t.1 } else { %a })
}
)",
     R"(def @main(%x: Tensor[(4, 6), float32], %c: bool) {
  let %t = fn (%x_1: Tensor[(4, 6), float32], Primitive=1) {
    let %t_1 = split(%x_1, indices_or_sections=2, axis=1);
    let %t_2 = %t_1.0;
    let %t_3 = %t_1.1;
    (%t_2, %t_3)
  }(%x);
  let %t_4 = %t.0;
  let %t_5 = %t.1;
  let %t_6 = (%t_4, %t_5);
  let %a = fn (%t_7: Tensor[(4, 3), float32], Primitive=1) {
    let %a_1 = tanh(%t_7);
    %a_1
  }(%t_4);
  let %t_8 = if (%c) {
    %t_6.1
  } else {
    %a
  };
  (%t_6, %t_8)
}
)"},
    {"ATupleAsTail", "fuse_ops", 0,
     R"(
def @main(%x: Tensor[(4, 6), float32]) { split(%x, indices_or_sections=2, axis=1) }
)",
     R"(def @main(%x: Tensor[(4, 6), float32]) {
  let %t = fn (%x_1: Tensor[(4, 6), float32], Primitive=1) {
    let %t_1 = split(%x_1, indices_or_sections=2, axis=1);
    let %t_2 = %t_1.0;
    let %t_3 = %t_1.1;
    (%t_2, %t_3)
  }(%x);
  let %t_4 = %t.0;
  let %t_5 = %t.1;
  (%t_4, %t_5)
}
)"},
    {"ViewsStayOutsideAtTheRim", "fuse_ops", 2,
     R"(
def @main(%x: Tensor[(4, 6), float32]) {
  let %a = reshape(%x, newshape=[24]);
  let %b = tanh(reshape(exp(%a), newshape=[6, 4]));
  let %c = expand_dims(%b, axis=0);
  (%c, sum(%b))
}
)",
     R"(def @main(%x: Tensor[(4, 6), float32]) {
  let %a = reshape(%x, newshape=[24], allowzero=0);
  let %t = fn (%a_1: Tensor[(24), float32], Primitive=1) {
    let %t_1 = exp(%a_1);
    let %t_2 = reshape(%t_1, newshape=[6, 4], allowzero=0);
    let %b = tanh(%t_2);
    let %t_3 = sum(%b, axis=None, keepdims=False, exclude=False);
    (%b, %t_3)
  }(%a);
  let %b_1 = %t.0;
  let %t_4 = %t.1;
  let %c = expand_dims(%b_1, axis=0, num_newaxis=1);
  (%c, %t_4)
}
)"},
    {"AStepThatNeedsAMemberSplitsTheGroup", "fuse_ops", 2,
     R"(
def @f(%x: Tensor[(4), float32]) -> Tensor[(4), float32] { if (sum(%x) == 0f) { %x } else { @f(tanh(%x)) } }
def @main(%x: Tensor[(4), float32]) {
  let %a = tanh(%x);
  let %b = @f(%a);
  add(%a, %b)
}
)",
     R"(def @main(%x: Tensor[(4), float32]) {
  let %a = fn (%x_1: Tensor[(4), float32], Primitive=1) {
    let %a_1 = tanh(%x_1);
    %a_1
  }(%x);
  let %b = @f(%a);
  fn (%a_2: Tensor[(4), float32], %b_1: Tensor[(4), float32], Primitive=1) {
    let %t = %a_2 + %b_1;
    %t
  }(%a, %b)
}

def @f(%x_2: Tensor[(4), float32]) -> Tensor[(4), float32] {
  let %t_1 = fn (%x_3: Tensor[(4), float32], Primitive=1) {
    let %t_2 = sum(%x_3, axis=None, keepdims=False, exclude=False);
    %t_2
  }(%x_2);
  let %t_3 = %t_1 == 0f;
  if (%t_3) {
    %x_2
  } else {
    let %t_4 = fn (%x_4: Tensor[(4), float32], Primitive=1) {
      let %t_5 = tanh(%x_4);
      %t_5
    }(%x_2);
    @f(%t_4)
  }
}
)"},
    {"AStepThatDoesNotIsPassed", "fuse_ops", 2,
     R"(
def @main(%x: Tensor[(4), float32], %r: ref(int32)) {
  let %a = tanh(%x);
  ref_write(%r, 1);
  exp(%a)
}
)",
     R"(def @main(%x: Tensor[(4), float32], %r: ref(int32)) {
  ref_write(%r, 1);
  fn (%x_1: Tensor[(4), float32], Primitive=1) {
    let %a = tanh(%x_1);
    let %t = exp(%a);
    %t
  }(%x)
}
)"},
    {"ConstantsOfRankArePassed", "fuse_ops", 1,
     R"(
def @main(%x: Tensor[(2), float32]) { add(multiply(%x, 2f), Constant([1f, 2f], (2), float32)) }
)",
     R"(def @main(%x: Tensor[(2), float32]) {
  fn (%x_1: Tensor[(2), float32], %c: Tensor[(2), float32], Primitive=1) {
    let %t = %x_1 * 2f;
    let %t_1 = %t + %c;
    %t_1
  }(%x, Constant([1f, 2f], (2), float32))
}
)"},
    {"BlocksAreFusedApart", "fuse_ops", 2,
     R"(
def @main(%x: Tensor[(4), float32], %c: bool) {
  let %a = tanh(%x);
  let %b = if (%c) { exp(tanh(%a)) } else { %x };
  let %f = fn (%y: Tensor[(4), float32]) { exp(add(%y, %a)) };
  (%b, %f)
}
)",
     R"(def @main(%x: Tensor[(4), float32], %c: bool) {
  let %a = fn (%x_1: Tensor[(4), float32], Primitive=1) {
    let %a_1 = tanh(%x_1);
    %a_1
  }(%x);
  let %b = if (%c) {
    fn (%a_2: Tensor[(4), float32], Primitive=1) {
      let %t = tanh(%a_2);
      let %t_1 = exp(%t);
      %t_1
    }(%a)
  } else {
    %x
  };
  let %f = fn (%y: Tensor[(4), float32]) {
    fn (%y_1: Tensor[(4), float32], %a_3: Tensor[(4), float32], Primitive=1) {
      let %t_2 = %y_1 + %a_3;
      let %t_3 = exp(%t_2);
      %t_3
    }(%y, %a)
  };
  (%b, %f)
}
)"},
};

using FuseOpsTest = PassTest;

TEST_P(FuseOpsTest, Prints) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, FuseOpsTest, testing::ValuesIn(kCases), NameOfCase);

// The number of kernels of a program alone, and where independent calls run together.
struct LevelCase {
  std::string_view name;
  const char* source;
  int alone, batched;
};

constexpr LevelCase kLevelCases[] = {
    {"StepsOfAList", R"(
type List[A] { Cons(A, List[A]), Nil, }
def @last(%xs: List[Tensor[(1, 60), float32]], %h: Tensor[(1, 72), float32]) -> Tensor[(1, 72), float32] {
  match (%xs) {
    Nil => %h,
    Cons(%x, %rest) => {
      let %sum = nn.dense(%x, ones(shape=[72, 60], dtype="float32")) + nn.dense(%h, ones(shape=[72, 72], dtype="float32"));
      @last(%rest, tanh(%sum))
    },
  }
}
def @main(%xs: List[Tensor[(1, 60), float32]], %h: Tensor[(1, 72), float32]) { @last(%xs, %h) }
)",
     1, 2},
    // Operators before a product, or behind the sum, stay with them.
    {"StatesOfATree", R"(
type Tree { Leaf(Tensor[(1, 60), float32]), Node(Tensor[(1, 60), float32], Tree, Tree), }
def @state(%tree: Tree) -> Tensor[(1, 72), float32] {
  match (%tree) {
    Leaf(%x) => tanh(nn.dense(tanh(%x), ones(shape=[72, 60], dtype="float32"))),
    Node(%x, %a, %b) => {
      let %below = @state(%a) + @state(%b);
      let %own = nn.dense(tanh(%x), ones(shape=[72, 60], dtype="float32")) + ones(shape=[72], dtype="float32");
      tanh(%own + nn.dense(%below, ones(shape=[72, 72], dtype="float32"))) * %below
    },
  }
}
def @main(%tree: Tree) { @state(%tree) }
)",
     2, 3},
    {"StateInAReference", R"(
def @steps(%n: int32, %h: Ref[Tensor[(1, 72), float32]], %x: Tensor[(1, 60), float32]) -> () {
  if (%n > 0) {
    let %state = ref_read(%h);
    let %sum = nn.dense(%x + cast(%n, dtype="float32"), ones(shape=[72, 60], dtype="float32"))
        + nn.dense(%state, ones(shape=[72, 72], dtype="float32"));
    ref_write(%h, tanh(%sum));
    @steps(%n - 1, %h, %x)
  } else { () }
}
def @main(%n: int32, %x: Tensor[(1, 60), float32], %h: Tensor[(1, 72), float32]) {
  let %state = ref(%h);
  @steps(%n, %state, %x);
  ref_read(%state)
}
)",
     1, 2},
    {"TwoInputs", R"(
type List[A] { Cons(A, List[A]), Nil, }
def @each(%xs: List[(Tensor[(1, 60), float32], Tensor[(1, 72), float32])]) -> List[Tensor[(1, 72), float32]] {
  match (%xs) {
    Nil => Nil,
    Cons((%x, %y), %rest) => {
      let %sum = nn.dense(%x, ones(shape=[72, 60], dtype="float32")) + nn.dense(%y, ones(shape=[72, 72], dtype="float32"));
      Cons(tanh(%sum), @each(%rest))
    },
  }
}
def @main(%xs: List[(Tensor[(1, 60), float32], Tensor[(1, 72), float32])]) { @each(%xs) }
)",
     1, 1},
    {"ProductBeforeTheLoop", R"(
type List[A] { Cons(A, List[A]), Nil, }
def @each(%xs: List[Tensor[(1, 60), float32]], %y: Tensor[(1, 72), float32]) -> List[Tensor[(1, 72), float32]] {
  match (%xs) {
    Nil => Nil,
    Cons(%x, %rest) => {
      let %sum = nn.dense(%x, ones(shape=[72, 60], dtype="float32")) + nn.dense(%y, ones(shape=[72, 72], dtype="float32"));
      Cons(tanh(%sum), @each(%rest, %y))
    },
  }
}
def @main(%xs: List[Tensor[(1, 60), float32]], %y: Tensor[(1, 72), float32]) { @each(%xs, %y) }
)",
     2, 2},
    {"SmallWeights", R"(
type List[A] { Cons(A, List[A]), Nil, }
def @last(%xs: List[Tensor[(1, 60), float32]], %h: Tensor[(1, 60), float32]) -> Tensor[(1, 60), float32] {
  match (%xs) {
    Nil => %h,
    Cons(%x, %rest) => {
      let %sum = nn.dense(%x, ones(shape=[60, 60], dtype="float32")) + nn.dense(%h, ones(shape=[60, 60], dtype="float32"));
      @last(%rest, tanh(%sum))
    },
  }
}
def @main(%xs: List[Tensor[(1, 60), float32]], %h: Tensor[(1, 60), float32]) { @last(%xs, %h) }
)",
     1, 1},
    {"ManyRows", R"(
type List[A] { Cons(A, List[A]), Nil, }
def @last(%xs: List[Tensor[(8, 60), float32]], %h: Tensor[(8, 72), float32]) -> Tensor[(8, 72), float32] {
  match (%xs) {
    Nil => %h,
    Cons(%x, %rest) => {
      let %sum = nn.dense(%x, ones(shape=[72, 60], dtype="float32")) + nn.dense(%h, ones(shape=[72, 72], dtype="float32"));
      @last(%rest, tanh(%sum))
    },
  }
}
def @main(%xs: List[Tensor[(8, 60), float32]], %h: Tensor[(8, 72), float32]) { @last(%xs, %h) }
)",
     1, 1},
    // The gradient of a weight waits for nobody, and nobody for it.
    {"SumInAReference", R"(
def @back(%n: int32, %g: Ref[Tensor[(72, 60), float32]], %x: Tensor[(1, 60), float32], %d: Tensor[(1, 72), float32])
    -> Tensor[(1, 72), float32] {
  if (%n > 0) {
    let %e = tanh(%d) * %d;
    let %sum = ref_read(%g);
    ref_write(%g, %sum + transpose(%e) * %x);
    @back(%n - 1, %g, %x, %e)
  } else { %d }
}
def @main(%n: int32, %x: Tensor[(1, 60), float32], %d: Tensor[(1, 72), float32], %w: Tensor[(72, 60), float32]) {
  let %g = ref(%w);
  (@back(%n, %g, %x, %d), ref_read(%g))
}
)",
     1, 2},
    {"NoRecursion", R"(
def @main(%x: Tensor[(1, 60), float32], %y: Tensor[(1, 60), float32]) {
  let %h = tanh(nn.dense(%x, ones(shape=[72, 60], dtype="float32")));
  nn.dense(%h, ones(shape=[72, 72], dtype="float32")) + nn.dense(%y, ones(shape=[72, 60], dtype="float32"))
}
)",
     1, 1},
};

class LevelTest : public testing::TestWithParam<LevelCase> {};

TEST_P(LevelTest, KernelsWaitOnlyForWhatTheyNeed) {
  auto count = [](const std::string& text) {
    int kernels = 0;
    for (size_t at = text.find("Primitive=1"); at != std::string::npos; at = text.find("Primitive=1", at + 1))
      ++kernels;
    return kernels;
  };
  std::string alone = After("fuse_ops", GetParam().source, 2), batched = After("fuse_ops", GetParam().source, 2, true);
  EXPECT_EQ(count(alone), GetParam().alone) << alone;
  EXPECT_EQ(count(batched), GetParam().batched) << batched;
}

INSTANTIATE_TEST_SUITE_P(Programs, LevelTest, testing::ValuesIn(kLevelCases), NameOfCase);

// A copy of %a moves to its only reader, whose extents are too large for one kernel. The part with the copy is called
// behind the kernel that gives %a, and views stay in order. `copy`: steps that make %c of %a.
std::string CopyIntoLargeExtents(const char* copy) {
  std::string source = R"(
def @f(%x: Tensor[(n), float32]) -> Tensor[(n), float32] { if (sum(%x) == 0f) { %x } else { @f(tanh(%x)) } }
def @main(%x: Tensor[(8, n), float32], %y0: Tensor[(m), float32]) {
)";
  auto double_extent = [&](int i) {
    absl::StrAppend(&source, "  let %y", i + 1, " = abs(concatenate((%y", i, ", negative(%y", i, ")), axis=0));\n");
  };
  double_extent(0);
  absl::StrAppend(&source, "  let %a = exp(%x);\n", copy);
  for (int i = 1; i < 14; ++i) double_extent(i);
  absl::StrAppend(&source, R"(
  let %d = tanh(sum(%a, axis=[0]));
  let %e = @f(%d);
  (%a, sum(%c, keepdims=True) + sum(%y14, keepdims=True) + %e)
}
)");
  return source;
}

TEST(MovedCopiesTest, PartsStandBehindResultsThatMovedCopiesTake) {
  for (const char* copy : {"  let %c = transpose(%a);\n",
                           "  let %v = expand_dims(%a, axis=1);\n  let %c = transpose(%v, axes=[2, 0, 1]);\n",
                           "  let %t = transpose(%a);\n  let %c = expand_dims(%t, axis=0);\n"}) {
    std::string text = After("fuse_ops", CopyIntoLargeExtents(copy), 2);
    EXPECT_TRUE(text.starts_with("def @main")) << text;
    EXPECT_GT(text.find("transpose"), text.find("concatenate")) << text;
  }
}

// Numbers of operators of the kernels of @main, in order.
std::vector<int> KernelSizes(const std::string& text) {
  std::vector<int> sizes;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (line.find("Primitive=1") != std::string::npos) sizes.push_back(0);
    if (line.starts_with("    let ")) ++sizes.back();
  }
  return sizes;
}

// The reader of %c has `num_ops` operators before a copy moves to it.
std::string CopyOfLargeReader(int num_ops) {
  std::string source = R"(
def @main(%x: Tensor[(8, 9), float32], %y0: Tensor[(9, 8), float32]) {
  let %a = exp(%x);
  let %c = transpose(%a);
)";
  for (int i = 1; i < num_ops; ++i) absl::StrAppend(&source, "  let %y", i, " = abs(%y", i - 1, ");\n");
  return absl::StrCat(source, "  (%a, %y", num_ops - 1, " + %c)\n}\n");
}

TEST(MovedCopiesTest, MoveWhereTheirReaderHasRoom) {
  EXPECT_EQ(KernelSizes(After("fuse_ops", CopyOfLargeReader(63), 2)), std::vector<int>({1, 64}));
  EXPECT_EQ(KernelSizes(After("fuse_ops", CopyOfLargeReader(64), 2)), std::vector<int>({2, 64}));
}

// Each product has a layout of its own for weights that several read.
TEST(FuseOpsTest, SharedWeightsAreAParameterForEachProduct) {
  const std::string text = After("fuse_ops", R"(
def @main(%x: Tensor[(8, 100), float32]) {
  let %w = Constant(2f, (100, 100), float32);
  let %b = Constant(3f, (100), float32);
  nn.dense(nn.dense(%x, %w) + %b, %w) + %b
}
)",
                                 2);
  EXPECT_EQ(KernelSizes(text), std::vector<int>({4}));
  // Parameters are declared with a type; constants print theirs otherwise.
  auto params = [&](const std::string& type) {
    return std::vector<std::string>(absl::StrSplit(text, absl::StrCat(": Tensor[", type, ", float32]"))).size() - 1;
  };
  EXPECT_EQ(params("(100, 100)"), 2u) << text;
  EXPECT_EQ(params("(100)"), 1u) << text;
}

// A kernel that is full ends where least memory lies between it and the next one: at the bytes, not at the wide sums
// that are made of them.
TEST(FuseOpsTest, FullKernelsEndAtNarrowTensors) {
  auto program = [](int before, int behind) {
    std::string source = "def @main(%x: Tensor[(16), int32]) {\n  let %y0 = %x + 1;\n";
    for (int i = 1; i < before; ++i) absl::StrAppend(&source, "  let %y", i, " = %y", i - 1, " * ", i + 1, ";\n");
    absl::StrAppend(&source, "  let %b = cast(%y", before - 1, ", dtype=\"int8\");\n");
    absl::StrAppend(&source, "  let %z0 = cast(%b, dtype=\"int32\");\n");
    for (int i = 1; i < behind; ++i) absl::StrAppend(&source, "  let %z", i, " = %z", i - 1, " + %y0;\n");
    return absl::StrCat(source, "  %z", behind - 1, "\n}\n");
  };
  // `y0` is stored as well, since both read it.
  EXPECT_EQ(KernelSizes(After("fuse_ops", program(49, 20), 2)), std::vector<int>({50, 20}));
  // The end that would have to move is too long.
  EXPECT_EQ(KernelSizes(After("fuse_ops", program(30, 60), 2)), std::vector<int>({64, 27}));
}

// A weight that is made of codes joins its product before rows do that fill the kernel.
TEST(FuseOpsTest, ExpandedWeightsJoinTheirProductFirst) {
  std::string source = "def @main(%x: Tensor[(1, 512), float32]) {\n  let %y0 = %x + 1f;\n";
  for (int i = 1; i < 62; ++i) absl::StrAppend(&source, "  let %y", i, " = %y", i - 1, " * ", i + 1, "f;\n");
  absl::StrAppend(&source, "  nn.dense(%y61, (cast(Constant(2u8, (300, 512), uint8), dtype=\"float32\") - 8f) * ",
                  "Constant(3f, (300, 1), float32))\n}\n");
  const std::string text = After("fuse_ops", source, 2);
  EXPECT_EQ(text.find("Tensor[(300, 512), float32], Primitive"), std::string::npos) << text;
  EXPECT_EQ(KernelSizes(text), std::vector<int>({62, 4}));
}

}  // namespace
}  // namespace rvm::passes
