#include <string_view>

#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

constexpr PassCase kCases[] = {
    {"OperandsGetNames", "to_anf", 0,
     R"(
def @f(%x: int32) -> int32 { %x }
def @main(%x: int32) { (@f(%x + 1) * @f(2), (%x, 3)) }
)",
     R"(def @main(%x: int32) {
  let %t = %x + 1;
  let %t_1 = @f(%t);
  let %t_2 = @f(2);
  let %t_3 = %t_1 * %t_2;
  let %t_4 = (%x, 3);
  (%t_3, %t_4)
}

def @f(%x_1: int32) -> int32 {
  %x_1
}
)"},
    {"MatchesLookAtFieldsInPlace", "to_anf", 0,
     R"(
type List[A] { Cons(A, List[A]), Nil, }
def @main(%x: int32, %l: List[int32]) {
  (match ((%x + 1, %l)) { (%a, Nil) => %a, (_, Cons(%b, _)) => %b, },
   match ((%l, %l)) { (Nil, Nil) => 0, _ => 1, },
   match ((%x, %l)) { (_, Nil) => (%x, %l), %p => %p, })
}
)",
     R"(def @main(%x: int32, %l: List[int32]) {
  let %t = %x + 1;
  let %t_1 = (match ((%t, %l)) {
    (%a, Nil) => %a,
    (_, Cons(%b, _)) => %b,
  });
  let %t_2 = (%l, %l);
  let %t_3 = (match (%t_2) {
    (Nil, Nil) => 0,
    _ => 1,
  });
  let %t_4 = (%x, %l);
  let %t_5 = (match (%t_4) {
    (_, Nil) => (%x, %l),
    %p => %p,
  });
  (%t_1, %t_3, %t_5)
}
)"},
    {"BranchesAreBlocks", "to_anf", 0,
     R"(
def @main(%x: int32) {
  let %y = if (%x == 1) { let %a = %x + 1; %a * 2 } else { %x };
  if (%y < 3) { %y } else { -%y }
}
)",
     R"(def @main(%x: int32) {
  let %t = %x == 1;
  let %y = if (%t) {
    let %a = %x + 1;
    %a * 2
  } else {
    %x
  };
  let %t_1 = %y < 3;
  if (%t_1) {
    %y
  } else {
    negative(%y)
  }
}
)"},
    {"NamesOfNamesDisappear", "to_anf", 0,
     R"(
def @main(%x: int32) { let %a = %x; let %b = { let %c = %a + 1; %c }; let %d = %b; %d + %a }
)",
     R"(def @main(%x: int32) {
  let %c = %x + 1;
  %c + %x
}
)"},
    {"TailCallsStayInTailPosition", "to_anf", 0,
     R"(
def @loop(%i: int32) -> int32 {
  %0 = %i + 1;
  %1 = if (%i < 10) { %2 = @loop(%0); %2 } else { %i };
  %1
}
def @main() { @loop(0) }
)",
     R"(def @main() {
  @loop(0)
}

def @loop(%i: int32) -> int32 {
  %0 = %i + 1;
  let %t = %i < 10;
  if (%t) {
    @loop(%0)
  } else {
    %i
  }
}
)"},
    {"TupleArgumentsStandInPlace", "to_anf", 0,
     R"(
def @main(%x: Tensor[(2), float32], %p: (Tensor[(2), float32], Tensor[(3), float32])) {
  let %t = (%x, tanh(%x));
  (concatenate((%x, exp(%x)), axis=0), concatenate(%t, axis=0), concatenate(%p, axis=0))
}
)",
     R"(def @main(%x: Tensor[(2), float32], %p: (Tensor[(2), float32], Tensor[(3), float32])) {
  let %t = tanh(%x);
  let %t_1 = (%x, %t);
  let %t_2 = exp(%x);
  let %t_3 = concatenate((%x, %t_2), axis=0);
  let %t_4 = concatenate((%x, %t), axis=0);
  let %t_5 = %p.0;
  let %t_6 = %p.1;
  let %t_7 = concatenate((%t_5, %t_6), axis=0);
  (%t_3, %t_4, %t_7)
}
)"},
    {"AnAliasOfAnotherTypeIsChecked", "to_anf", 0,
     R"(
def @main(%x: Tensor[(?), float32]) { let %y: Tensor[(3), float32] = %x; add(%y, %y) }
)",
     R"(def @main(%x: Tensor[(?), float32]) {
  let %y: Tensor[(3), float32] = check_extent(%x, 3i64, axis=0, what="axis 0 of the value of `%y`, declared `3`");
  %y + %y
}
)"},
    {"ReferencesInOrder", "to_anf", 0,
     R"(
def @main(%x: int32) {
  let %r = ref(%x + 1);
  ref_write(%r, ref_read(%r) * 2);
  ref_read(%r) - ref_read(%r)
}
)",
     R"(def @main(%x: int32) {
  let %t = %x + 1;
  let %r = ref(%t);
  let %t_1 = ref_read(%r);
  let %t_2 = %t_1 * 2;
  ref_write(%r, %t_2);
  let %t_3 = ref_read(%r);
  let %t_4 = ref_read(%r);
  %t_3 - %t_4
}
)"},
};

using ToAnfTest = PassTest;

TEST_P(ToAnfTest, Prints) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, ToAnfTest, testing::ValuesIn(kCases), NameOfCase);

}  // namespace
}  // namespace rvm::passes
