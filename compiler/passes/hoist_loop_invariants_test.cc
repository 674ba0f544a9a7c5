#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

// Programs in which nothing is passed on.
constexpr KeptProgram kKept[] = {
    {"NoRecursion", R"(
def @main(%x: Tensor[(2, 2), float32], %w: Tensor[(2, 2), float32]) { nn.dense(%x, tanh(%w)) }
)"},
    {"AParameterThatChanges", R"(
def @f(%n: int32, %w: Tensor[(2, 2), float32]) -> Tensor[(2, 2), float32] {
  if (%n == 0) { %w } else { @f(%n - 1, tanh(%w)) }
}
def @main(%n: int32, %w: Tensor[(2, 2), float32]) { @f(%n, %w) }
)"},
    {"ParametersThatChangePlaces", R"(
def @f(%n: int32, %v: Tensor[(2), float32], %w: Tensor[(2), float32]) -> float32 {
  if (%n == 0) { 0f } else { sum(%v) + @f(%n - 1, %w, %v) }
}
def @main(%n: int32, %v: Tensor[(2), float32], %w: Tensor[(2), float32]) { @f(%n, %v, %w) }
)"},
    {"TheContentsOfAReference", R"(
def @f(%n: int32, %r: ref(Tensor[(2), float32])) -> float32 {
  if (%n == 0) {
    0f
  } else {
    let %sum = sum(ref_read(%r));
    ref_write(%r, Constant([1f, 2f], (2), float32));
    %sum + @f(%n - 1, %r)
  }
}
def @main(%n: int32, %w: Tensor[(2), float32]) { @f(%n, ref(%w)) }
)"},
    {"AnotherBranch", R"(
def @f(%n: int32, %w: Tensor[(2), float32]) -> float32 { if (%n == 0) { sum(%w) } else { @f(%n - 1, %w) } }
def @main(%n: int32, %w: Tensor[(2), float32]) { @f(%n, %w) }
)"},
    {"AfterTheCall", R"(
def @f(%n: int32, %w: Tensor[(2), float32]) -> float32 {
  if (%n == 0) { 0f } else { let %rest = @f(%n - 1, %w); %rest + sum(%w) }
}
def @main(%n: int32, %w: Tensor[(2), float32]) { @f(%n, %w) }
)"},
    {"ScalarsViewsAndWhatGrows", R"(
def @f(%n: int32, %x: Tensor[(4, 6), float32], %w: Tensor[(6), float32], %s: float32) -> Tensor[(4, 6), float32] {
  if (%n == 0) {
    %x
  } else {
    let %a = broadcast_to(reshape(%w, newshape=[1, 6]), shape=[4, 6]);
    @f(%n - 1, (%x + %a) * tanh(%s) + %w * 2f, %w, %s)
  }
}
def @main(%n: int32, %x: Tensor[(4, 6), float32], %w: Tensor[(6), float32], %s: float32) { @f(%n, %x, %w, %s) }
)"},
    {"ConstantsAlone", R"(
def @f(%n: int32, %x: Tensor[(1, 300), float32], %w: float32) -> Tensor[(1, 300), float32] {
  if (%n == 0) { %x } else { @f(%n - 1, nn.dense(%x, tanh(zeros(shape=[300, 300], dtype="float32"))), %w) }
}
def @main(%n: int32, %x: Tensor[(1, 300), float32], %w: float32) { @f(%n, %x, %w) }
)"},
    {"MutualRecursion", R"(
def @f(%n: int32, %w: Tensor[(2), float32]) -> float32 { if (%n == 0) { 0f } else { sum(%w) + @g(%n - 1, %w) } }
def @g(%n: int32, %w: Tensor[(2), float32]) -> float32 { if (%n == 0) { 1f } else { max(%w) * @f(%n - 1, %w) } }
def @main(%n: int32, %w: Tensor[(2), float32]) { @f(%n, %w) }
)"},
};

using HoistNothing = KeptTest;

TEST_P(HoistNothing, Prints) { Check("hoist_loop_invariants", "eliminate_common_subexpressions"); }

INSTANTIATE_TEST_SUITE_P(Programs, HoistNothing, testing::ValuesIn(kKept), NameOfCase);

constexpr PassCase kCases[] = {
    {"BeginsAgain", "hoist_loop_invariants", 2,
     R"(
def @f(%n: int32, %x: Tensor[(1, 2), float32], %w: Tensor[(2, 2), float32]) -> Tensor[(1, 2), float32] {
  if (%n == 0) { %x } else { let %y = exp(%x); @f(%n - 1, nn.dense(%y, tanh(%w)), %w) }
}
def @main(%n: int32, %x: Tensor[(1, 2), float32], %w: Tensor[(2, 2), float32]) { @f(%n, %x, %w) }
)",
     R"(def @main(%n: int32, %x: Tensor[(1, 2), float32], %w: Tensor[(2, 2), float32]) {
  @f(%n, %x, %w)
}

def @f(%n_1: int32, %x_1: Tensor[(1, 2), float32], %w_1: Tensor[(2, 2), float32]) -> Tensor[(1, 2), float32] {
  let %t = %n_1 == 0;
  if (%t) {
    %x_1
  } else {
    let %t_1 = tanh(%w_1);
    @f.loop(%n_1, %x_1, %w_1, %t_1)
  }
}

def @f.loop(
    %n_2: int32,
    %x_2: Tensor[(1, 2), float32],
    %w_2: Tensor[(2, 2), float32],
    %t_2: Tensor[(2, 2), float32]
) -> Tensor[(1, 2), float32] {
  let %t_3 = %n_2 == 0;
  if (%t_3) {
    %x_2
  } else {
    let %y = exp(%x_2);
    let %t_4 = %n_2 - 1;
    let %t_5 = nn.dense(%y, %t_2, units=None, out_dtype="");
    @f.loop(%t_4, %t_5, %w_2, %t_2)
  }
}
)"},
    {"OnlyWhatIsUsedIsPassed", "hoist_loop_invariants", 2,
     R"(
def @f(%n: int32, %x: Tensor[(2), float32], %w: Tensor[(2, 2), float32], %b: Tensor[(2), float32]) -> Tensor[(2), float32] {
  if (%n == 0) { %x } else { @f(%n - 1, %x * sigmoid(sum(%w, axis=[1]) + %b), %w, %b) }
}
def @main(%n: int32, %w: Tensor[(2, 2), float32], %b: Tensor[(2), float32]) { @f(%n, %b, %w, %b) }
)",
     R"(def @main(%n: int32, %w: Tensor[(2, 2), float32], %b: Tensor[(2), float32]) {
  @f(%n, %b, %w, %b)
}

def @f(
    %n_1: int32,
    %x: Tensor[(2), float32],
    %w_1: Tensor[(2, 2), float32],
    %b_1: Tensor[(2), float32]
) -> Tensor[(2), float32] {
  let %t = %n_1 == 0;
  if (%t) {
    %x
  } else {
    let %t_1 = sum(%w_1, axis=[1], keepdims=False, exclude=False);
    let %t_2 = %t_1 + %b_1;
    let %t_3 = sigmoid(%t_2);
    @f.loop(%n_1, %x, %w_1, %b_1, %t_3)
  }
}

def @f.loop(
    %n_2: int32,
    %x_1: Tensor[(2), float32],
    %w_2: Tensor[(2, 2), float32],
    %b_2: Tensor[(2), float32],
    %t_4: Tensor[(2), float32]
) -> Tensor[(2), float32] {
  let %t_5 = %n_2 == 0;
  if (%t_5) {
    %x_1
  } else {
    let %t_6 = %n_2 - 1;
    let %t_7 = %x_1 * %t_4;
    @f.loop(%t_6, %t_7, %w_2, %b_2, %t_4)
  }
}
)"},
    {"TwoCalls", "hoist_loop_invariants", 2,
     R"(
def @f(%n: int32, %w: Tensor[(2), float32]) -> float32 {
  if (%n == 0) {
    0f
  } else {
    if (%n == 7) { @f(3, %w) } else { let %s = sum(%w); @f(%n - 1, %w) + @f(%n - 2, %w) * %s }
  }
}
def @main(%n: int32, %w: Tensor[(2), float32]) { @f(%n, %w) }
)",
     R"(def @main(%n: int32, %w: Tensor[(2), float32]) {
  @f(%n, %w)
}

def @f(%n_1: int32, %w_1: Tensor[(2), float32]) -> float32 {
  let %t = %n_1 == 0;
  if (%t) {
    0f
  } else {
    let %t_1 = %n_1 == 7;
    if (%t_1) {
      @f(3, %w_1)
    } else {
      let %s = sum(%w_1, axis=None, keepdims=False, exclude=False);
      @f.loop(%n_1, %w_1, %s)
    }
  }
}

def @f.loop(%n_2: int32, %w_2: Tensor[(2), float32], %s_1: float32) -> float32 {
  let %t_2 = %n_2 == 0;
  if (%t_2) {
    0f
  } else {
    let %t_3 = %n_2 == 7;
    if (%t_3) {
      @f.loop(3, %w_2, %s_1)
    } else {
      let %t_4 = %n_2 - 1;
      let %t_5 = @f.loop(%t_4, %w_2, %s_1);
      let %t_6 = %n_2 - 2;
      let %t_7 = @f.loop(%t_6, %w_2, %s_1);
      let %t_8 = %t_7 * %s_1;
      %t_5 + %t_8
    }
  }
}
)"},
    {"AfterAnEffectInAClosure", "hoist_loop_invariants", 2,
     R"(
def @f(%r: ref(int32), %w: Tensor[(2), float32]) -> fn () -> float32 {
  ref_write(%r, ref_read(%r) - 1);
  if (ref_read(%r) <= 0) {
    fn () -> float32 { 0f }
  } else {
    let %s = sum(%w);
    fn () -> float32 { %s + (@f(%r, %w))() }
  }
}
def @main(%w: Tensor[(2), float32]) { let %r = ref(3); (@f(%r, %w))() }
)",
     R"(def @main(%w: Tensor[(2), float32]) {
  let %r = ref(3);
  let %t = @f(%r, %w);
  %t()
}

def @f(%r_1: ref(int32), %w_1: Tensor[(2), float32]) -> fn () -> float32 {
  let %t_1 = ref_read(%r_1);
  let %t_2 = %t_1 - 1;
  ref_write(%r_1, %t_2);
  let %t_3 = ref_read(%r_1);
  let %t_4 = %t_3 <= 0;
  if (%t_4) {
    fn () -> float32 {
      0f
    }
  } else {
    let %s = sum(%w_1, axis=None, keepdims=False, exclude=False);
    fn () -> float32 {
      let %t_5 = @f.loop(%r_1, %w_1, %s);
      let %t_6 = %t_5();
      %s + %t_6
    }
  }
}

def @f.loop(%r_2: ref(int32), %w_2: Tensor[(2), float32], %s_1: float32) -> fn () -> float32 {
  let %t_7 = ref_read(%r_2);
  let %t_8 = %t_7 - 1;
  ref_write(%r_2, %t_8);
  let %t_9 = ref_read(%r_2);
  let %t_10 = %t_9 <= 0;
  if (%t_10) {
    fn () -> float32 {
      0f
    }
  } else {
    fn () -> float32 {
      let %t_11 = @f.loop(%r_2, %w_2, %s_1);
      let %t_12 = %t_11();
      %s_1 + %t_12
    }
  }
}
)"},
};

using HoistLoopInvariantsTest = PassTest;

TEST_P(HoistLoopInvariantsTest, Prints) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, HoistLoopInvariantsTest, testing::ValuesIn(kCases), NameOfCase);

}  // namespace
}  // namespace rvm::passes
