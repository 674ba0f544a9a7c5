#include <string_view>

#include "compiler/passes/pass_test_support.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

constexpr PassCase kCases[] = {
    {"ACopyPerListOfTypeArguments", "specialize", 0,
     R"(
type List[A] { Cons(A, List[A]), Nil, }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil, }
}
def @main(%x: int32) { (@map(fn (%a: int32) -> bool { %a == 1 }, Cons(%x, Nil)), @map(negative, Cons(2f, Nil))) }
)",
     R"(def @main(%x: int32) {
  (@map[int32, bool](fn (%a: int32) -> bool {
    %a == 1
  }, Cons(%x, Nil)), @map[float32, float32](fn (%a_1: float32) {
    negative(%a_1)
  }, Cons(2f, Nil)))
}

def @map[int32, bool](%f: fn (int32) -> bool, %xs: List[int32]) -> List[bool] {
  match (%xs) {
    Cons(%x_1, %rest) => Cons(%f(%x_1), @map[int32, bool](%f, %rest)),
    Nil => Nil,
  }
}

def @map[float32, float32](%f_1: fn (float32) -> float32, %xs_1: List[float32]) -> List[float32] {
  match (%xs_1) {
    Cons(%x_2, %rest_1) => Cons(%f_1(%x_2), @map[float32, float32](%f_1, %rest_1)),
    Nil => Nil,
  }
}
)"},
    {"OneCopyForAllDimsKnownAtRunTime", "specialize", 0,
     R"(
def @twice[n: ShapeVar](%x: Tensor[(n), float32]) -> Tensor[(n), float32] { add(%x, %x) }
def @main[m: ShapeVar](%x: Tensor[(m), float32], %y: Tensor[(3), float32], %z: Tensor[(?), float32]) {
  (@twice(%x), @twice(%y), @twice(%z))
}
)",
     R"(def @main[m: ShapeVar](%x: Tensor[(m), float32], %y: Tensor[(3), float32], %z: Tensor[(?), float32]) {
  (@twice(%x), @twice[3](%y), @twice(%z))
}

def @twice[n: ShapeVar](%x_1: Tensor[(n), float32]) -> Tensor[(n), float32] {
  %x_1 + %x_1
}

def @twice[3](%x_2: Tensor[(3), float32]) -> Tensor[(3), float32] {
  %x_2 + %x_2
}
)"},
    {"DimsOfCallersGetOwnNames", "specialize", 0,
     R"(
type List[A] { Cons(A, List[A]), Nil, }
def @head[A](%xs: List[A], %d: A) -> A { match (%xs) { Cons(%x, _) => %x, Nil => %d, } }
def @f[k: ShapeVar](%x: Tensor[(k), float32]) -> Tensor[(k), float32] { @head(Nil, %x) }
def @main[m: ShapeVar](%x: Tensor[(m), float32]) { (@f(%x), @head(Cons(%x, Nil), %x)) }
)",
     R"(def @main[m: ShapeVar](%x: Tensor[(m), float32]) {
  (@f(%x), @head[Tensor[(d0), float32]](Cons(%x, Nil), %x))
}

def @f[k: ShapeVar](%x_1: Tensor[(k), float32]) -> Tensor[(k), float32] {
  @head[Tensor[(d0), float32]](Nil, %x_1)
}

def @head[Tensor[(d0), float32]][d0: ShapeVar](
    %xs: List[Tensor[(d0), float32]],
    %d: Tensor[(d0), float32]
) -> Tensor[(d0), float32] {
  match (%xs) {
    Cons(%x_2, _) => %x_2,
    Nil => %d,
  }
}
)"},
    {"FunctionsUsedAsValuesBecomeLiterals", "specialize", 0,
     R"(
type List[A] { Cons(A, List[A]), Nil, }
def @inc(%x: int32) -> int32 { %x + 1 }
def @apply(%f: fn (int32) -> int32) -> int32 { %f(1) }
def @build(%f: fn (int32, List[int32]) -> List[int32]) -> List[int32] { %f(1, Nil) }
def @main() { (@apply(@inc), @apply(negative), @build(Cons)) }
)",
     R"(def @main() {
  (@apply(fn (%a: int32) {
    @inc(%a)
  }), @apply(fn (%a_1: int32) {
    negative(%a_1)
  }), @build(fn (%a_2: int32, %b: List[int32]) {
    Cons(%a_2, %b)
  }))
}

def @apply(%f: fn (int32) -> int32) -> int32 {
  %f(1)
}

def @inc(%x: int32) -> int32 {
  %x + 1
}

def @build(%f_1: fn (int32, List[int32]) -> List[int32]) -> List[int32] {
  %f_1(1, Nil)
}
)"},
    {"LocalPolymorphicFunctionsTakeTheirUses", "specialize", 0,
     R"(
def @main(%x: float32) {
  let %id = fn [A](%a: A) -> A { %a };
  let %pair = fn [B](%b: B) -> (B, B) { (%id(%b), %b) };
  (%pair(1), %id(%x), %pair(%x))
}
)",
     R"(def @main(%x: float32) {
  let %id = fn (%a: int32) -> int32 {
    %a
  };
  let %id_1 = fn (%a_1: float32) -> float32 {
    %a_1
  };
  let %pair = fn (%b: float32) -> (float32, float32) {
    (%id_1(%b), %b)
  };
  let %pair_1 = fn (%b_1: int32) -> (int32, int32) {
    (%id(%b_1), %b_1)
  };
  (%pair_1(1), %id_1(%x), %pair(%x))
}
)"},
    {"UnusedFunctionsAreDropped", "specialize", 0,
     R"(
def @unused(%x: int32) -> int32 { %x }
def @main(%x: int32) { %x }
)",
     R"(def @main(%x: int32) {
  %x
}
)"},
    {"AnEntryIsMonomorphic", "specialize", 0,
     R"(
def @main[A](%x: A) -> A { %x }
)",
     R"(UNIMPLEMENTED: the entry `@main` has the type parameter `A`; an entry may have only parameters of kind `ShapeVar`)"},
    {"PolymorphicValuesBecomeTheirInstances", "specialize", 0,
     R"(
def @use(%f: fn [A](A) -> A, %x: int32) -> (int32, bool) { (%f(%x), %f(True)) }
def @main(%x: int32) -> (int32, bool) { @use(fn [A](%a: A) -> A { %a }, %x) }
)",
     R"(def @main(%x: int32) -> (int32, bool) {
  @use((fn (%a: int32) -> int32 {
    %a
  }, fn (%a_1: bool) -> bool {
    %a_1
  }), %x)
}

def @use(%f: (fn (int32) -> int32, fn (bool) -> bool), %x_1: int32) -> (int32, bool) {
  (%f.0(%x_1), %f.1(True))
}
)"},
    {"TypesWithoutEndHaveOneForm", "specialize", 0,
     R"(
type Perfect[A] { Zero(A), Succ(Perfect[(A, A)]), }
def @left[A](%t: Perfect[A]) -> A {
  match (%t) { Zero(%a) => %a, Succ(%u) => match (@left(%u)) { (%a, _) => %a } }
}
def @main(%x: int32) -> int32 { @left(Succ(Zero((%x, 2)))) }
)",
     R"(def @main(%x: int32) -> int32 {
  @convert 2(@left(Succ(Zero(@convert 1((%x, 2))))))
}

def @left(%t: Perfect) -> any type {
  match (%t) {
    Zero(%a) => %a,
    Succ(%u) => match (@convert 3(@left(%u))) {
      (%a_1, _) => %a_1,
    },
  }
}

def @convert 1(%x_1: (int32, int32)) -> any type {
  any (any type, any type)(@convert 4(%x_1.0), @convert 4(%x_1.1))
}

def @convert 2(%x_2: any type) -> int32 {
  match (%x_2) {
    any int32(%x_3) => %x_3,
  }
}

def @convert 3(%x_4: any type) -> (any type, any type) {
  match (%x_4) {
    any (any type, any type)(%x_5, %x_6) => (%x_5, %x_6),
  }
}

def @convert 4(%x_7: int32) -> any type {
  any int32(%x_7)
}
)"},
    {"OtherTypeParametersAreCopiedBesideThem", "specialize", 0,
     R"(
type List[A] { Cons(A, List[A]), Nil, }
def @grow[A, B](%x: A, %y: B, %n: int32) -> List[B] {
  if (%n == 0) { Cons(%y, Nil) } else { @grow(Cons(%x, Nil), %y, %n - 1) }
}
def @main(%x: int32) -> List[bool] { @grow(%x, True, %x) }
)",
     R"(def @main(%x: int32) -> List[bool] {
  @grow[bool](@convert 1(%x), True, %x)
}

def @grow[bool](%x_1: any type, %y: bool, %n: int32) -> List[bool] {
  if (%n == 0) {
    Cons(%y, Nil)
  } else {
    @grow[bool](@convert 2(Cons(%x_1, Nil)), %y, %n - 1)
  }
}

def @convert 1(%x_2: int32) -> any type {
  any int32(%x_2)
}

def @convert 2(%x_3: List[any type]) -> any type {
  any List[any type](%x_3)
}
)"},
    {"OperatorsOnTypeParametersAreCheckedPerInstance", "specialize", 0,
     R"(
def @f[S: Shape](%x: Tensor[S, float32]) -> Tensor[S, float32] { %x + Constant([1, 2], (2), float32) }
def @main[n: ShapeVar](%x: Tensor[(2), float32], %y: Tensor[(n), float32]) { (@f(%x), @f(%y)) }
)",
     R"(def @main[n: ShapeVar](%x: Tensor[(2), float32], %y: Tensor[(n), float32]) {
  (@f[(2)](%x), @f[(d0)](%y))
}

def @f[(2)](%x_1: Tensor[(2), float32]) -> Tensor[(2), float32] {
  %x_1 + Constant([1f, 2f], (2), float32)
}

def @f[(d0)][d0: ShapeVar](%x_2: Tensor[(d0), float32]) -> Tensor[(d0), float32] {
  let %r = %x_2 + Constant([1f, 2f], (2), float32);
  %r
}
)"},
};

using SpecializeTest = PassTest;

TEST_P(SpecializeTest, Prints) { Check(); }

INSTANTIATE_TEST_SUITE_P(Programs, SpecializeTest, testing::ValuesIn(kCases), NameOfCase);

}  // namespace
}  // namespace rvm::passes
