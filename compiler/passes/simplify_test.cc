#include <string_view>

#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

constexpr PassCase kCases[] = {
    {"InlineSmallFunctions", "inline", 1,
     R"(
def @sq(%x: int32) -> int32 { %x * %x }
def @f(%x: int32) -> int32 { @sq(%x) + 1 }
def @main(%x: int32) { @f(@f(%x)) }
)",
     R"(def @main(%x: int32) {
  let %x_1: int32 = %x * %x + 1;
  %x_1 * %x_1 + 1
}
)"},
    {"InlineNotRecursiveOnes", "inline", 1,
     R"(
def @f(%x: int32) -> int32 { if (%x == 0) { 0 } else { @f(%x - 1) } }
def @main(%x: int32) { @f(%x) }
)",
     R"(def @main(%x: int32) {
  @f(%x)
}

def @f(%x_1: int32) -> int32 {
  if (%x_1 == 0) {
    0
  } else {
    @f(%x_1 - 1)
  }
}
)"},
    {"InlineSolvesDims", "inline", 1,
     R"(
def @f[n: ShapeVar](%x: Tensor[(n), float32], %y: Tensor[(n), float32]) -> Tensor[(n), float32] { add(%x, %y) }
def @main[m: ShapeVar](%x: Tensor[(m), float32], %z: Tensor[(?), float32]) { (@f(%x, %x), @f(%z, %z)) }
)",
     R"(def @main[m: ShapeVar](%x: Tensor[(m), float32], %z: Tensor[(?), float32]) {
  (%x + %x, @f(%z, %z))
}

def @f[n: ShapeVar](%x_1: Tensor[(n), float32], %y: Tensor[(n), float32]) -> Tensor[(n), float32] {
  %x_1 + %y
}
)"},
    {"InlineKeepsChecks", "inline", 1,
     R"(
def @f(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { tanh(%x) }
def @main(%x: Tensor[(?), float32]) { @f(%x) }
)",
     R"(def @main(%x: Tensor[(?), float32]) {
  let %x_1: Tensor[(3), float32] = %x;
  tanh(%x_1)
}
)"},
    {"InlineLocalFunctionCalledOnce", "inline", 1,
     R"(
def @main(%x: int32) { let %f = fn (%a: int32) -> int32 { %a + %x }; (fn (%b: int32) -> int32 { %b * %f(%b) })(3) }
)",
     R"(def @main(%x: int32) {
  let %b: int32 = 3;
  %b * (%b + %x)
}
)"},
    {"FoldOperators", "fold_constant", 1,
     R"(
def @main() { let %a = 2 + 3; let %b = (%a * 2, 1f); (%b.0, exp(0f), split(Constant([1, 2], (2), int32), indices_or_sections=2)) }
)",
     R"(def @main() {
  let %b = (10, 1f);
  (10, 1f, (Constant([1], (1), int32), Constant([2], (1), int32)))
}
)"},
    {"FoldBranches", "fold_constant", 1,
     R"(
def @main(%x: int32) { if (1 < 2) { %x } else { %x + 1 } }
)",
     R"(def @main(%x: int32) {
  %x
}
)"},
    {"FoldMatches", "fold_constant", 1,
     R"(
type List[A] { Cons(A, List[A]), Nil, }
def @main(%x: int32) {
  let %l = Cons(%x, Cons(2, Nil));
  (match (Cons((%x + 1, %x), Nil)) { Nil => 0, Cons((%a, %b), Nil) => %a * %b, Cons(_, _) => 1, },
   match (%l) { Cons(%h, _) => %h, Nil => 0, })
}
)",
     R"(def @main(%x: int32) {
  let %t = Nil;
  let %t_1 = Cons(2, %t);
  let %l = Cons(%x, %t_1);
  (({
    let %t_2 = %x + 1;
    let %t_3 = (%t_2, %x);
    let %t_4 = Nil;
    %t_2 * %x
  }), %x)
}
)"},
    {"FoldNotWhatIsUnknown", "fold_constant", 1,
     R"(
type List[A] { Cons(A, List[A]), Nil, }
def @main(%x: List[int32]) {
  match (Cons(1, %x)) { Cons(%a, Cons(_, _)) => %a, _ => 2, }
}
)",
     R"(def @main(%x: List[int32]) {
  match (Cons(1, %x)) {
    Cons(%a, Cons(_, _)) => %a,
    _ => 2,
  }
}
)"},
    {"FoldPutsTuplesOfOperatorsInPlace", "eliminate_dead_code", 1,
     R"(
def @main(%x: Tensor[(2), float32]) { let %t = (%x, tanh(%x)); concatenate(%t) }
)",
     R"(def @main(%x: Tensor[(2), float32]) {
  let %t = tanh(%x);
  concatenate((%x, %t), axis=0)
}
)"},
    {"DeadCodeIsDropped", "eliminate_dead_code", 1,
     R"(
def @f(%x: int32) -> int32 { if (%x == 0) { 0 } else { @f(%x - 1) } }
def @main(%x: int32, %r: ref(int32)) {
  let %a = %x + 1;
  let %b = %a * 2;
  let %c = fn (%y: int32) -> int32 { @f(%b) + %y };
  let %d = ref(%x);
  %x
}
)",
     R"(def @main(%x: int32, %r: ref(int32)) {
  %x
}
)"},
    {"EffectsAreKept", "eliminate_dead_code", 1,
     R"(
def @f(%x: int32) -> int32 { if (%x == 0) { 0 } else { @f(%x - 1) } }
def @main(%x: int32, %r: ref(int32)) {
  let %a = %x + 1;
  let %b = @f(%a);
  let %c = if (%x == 2) { ref_write(%r, 1) } else { () };
  %x
}
)",
     R"(def @main(%x: int32, %r: ref(int32)) {
  let %a = %x + 1;
  let %b = @f(%a);
  let %c = if (%x == 2) {
    ref_write(%r, 1)
  } else {
    ()
  };
  %x
}

def @f(%x_1: int32) -> int32 {
  if (%x_1 == 0) {
    0
  } else {
    @f(%x_1 - 1)
  }
}
)"},
    {"LiftLoops", "lambda_lift", 1,
     R"(
def @main(%x: int32, %n: int32) {
  let %loop = fn (%i: int32, %acc: int32) -> int32 { if (%i < %n) { %loop(%i + 1, %acc * %x) } else { %acc } };
  %loop(0, 1)
}
)",
     R"(def @main(%x: int32, %n: int32) {
  @main.loop(%n, %x, 0, 1)
}

def @main.loop(%n_1: int32, %x_1: int32, %i: int32, %acc: int32) -> int32 {
  if (%i < %n_1) {
    @main.loop(%n_1, %x_1, %i + 1, %acc * %x_1)
  } else {
    %acc
  }
}
)"},
    {"LiftNestedLoops", "lambda_lift", 1,
     R"(
def @main(%x: int32, %n: int32) {
  let %outer = fn (%i: int32, %a: int32) -> int32 {
    let %inner = fn (%j: int32, %b: int32) -> int32 { if (%j < %n) { %inner(%j + 1, %b + %i) } else { %outer(%i + 1, %b) } };
    if (%i < %n) { %inner(0, %a * %x) } else { %a }
  };
  %outer(0, 1)
}
)",
     R"(def @main(%x: int32, %n: int32) {
  @main.outer(%n, %x, 0, 1)
}

def @main.inner(%n_1: int32, %i: int32, %x_1: int32, %j: int32, %b: int32) -> int32 {
  if (%j < %n_1) {
    @main.inner(%n_1, %i, %x_1, %j + 1, %b + %i)
  } else {
    @main.outer(%n_1, %x_1, %i + 1, %b)
  }
}

def @main.outer(%n_2: int32, %x_2: int32, %i_1: int32, %a: int32) -> int32 {
  if (%i_1 < %n_2) {
    @main.inner(%n_2, %i_1, %x_2, 0, %a * %x_2)
  } else {
    %a
  }
}
)"},
    {"LiftNotValues", "lambda_lift", 1,
     R"(
def @main(%x: int32) { let %f = fn (%a: int32) -> int32 { %f(%a) + %x }; (%f, %f(1)) }
)",
     R"(def @main(%x: int32) {
  let %f = fn (%a: int32) -> int32 {
    %f(%a) + %x
  };
  (%f, %f(1))
}
)"},
    {"CopyForLiterals", "specialize_calls", 2,
     R"(
def @repeat(%f: fn (int32) -> int32, %n: int32, %x: int32) -> int32 {
  if (%n == 0) { %x } else { @repeat(%f, %n - 1, %f(%x)) }
}
def @main(%k: int32) { @repeat(fn (%a: int32) -> int32 { %a * %k }, 3, 1) }
)",
     R"(def @main(%k: int32) {
  @main.repeat(%k, 3, 1)
}

def @main.repeat(%k_1: int32, %n: int32, %x: int32) -> int32 {
  if (%n == 0) {
    %x
  } else {
    @main.repeat(%k_1, %n - 1, %x * %k_1)
  }
}
)"},
    {"CopyOnlyWhatIsPassedAsItIs", "specialize_calls", 2,
     R"(
def @grow(%f: fn (int32) -> int32, %n: int32) -> int32 {
  if (%n == 0) { %f(1) } else { @grow(fn (%a: int32) -> int32 { %f(%f(%a)) }, %n - 1) }
}
def @main(%k: int32) { @grow(fn (%a: int32) -> int32 { %a * %k }, 3) }
)",
     R"(def @main(%k: int32) {
  @grow(fn (%a: int32) -> int32 {
    %a * %k
  }, 3)
}

def @grow(%f: fn (int32) -> int32, %n: int32) -> int32 {
  if (%n == 0) {
    %f(1)
  } else {
    @grow(fn (%a_1: int32) -> int32 {
      %f(%f(%a_1))
    }, %n - 1)
  }
}
)"},
};

using SimplifyTest = PassTest;

TEST_P(SimplifyTest, Prints) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, SimplifyTest, testing::ValuesIn(kCases), NameOfCase);

}  // namespace
}  // namespace rvm::passes
