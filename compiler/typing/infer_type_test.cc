#include "compiler/typing/infer_type.h"

#include <string>
#include <string_view>

#include "compiler/text/parser.h"
#include "gtest/gtest.h"

namespace rvm::typing {
namespace {

constexpr std::string_view kPrelude = R"(
type List[A] { Cons(A, List[A]), Nil }
type Option[A] { Some(A), None }
type Color { Red, Green, Blue }
type Tree[A] { Rose(A, List[Tree[A]]) }
)";

// The type of `@main` in the program, or the diagnostics.
std::string TypeOfMain(std::string_view program) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  uint32_t source = sources.Add("t", std::string(kPrelude) + std::string(program));
  if (!text::ParseModule(source, module, diagnostics)) return "does not parse: " + diagnostics.Render();
  bool ok = InferTypes(module, diagnostics);
  if (!ok || !diagnostics.all().empty()) return diagnostics.Render();
  const ir::GlobalFunction* main = module.FindFunction("main");
  return main == nullptr ? "" : ir::TypeToString(main->function->type);
}

struct Case {
  std::string_view program;
  std::string_view expected;  // the type of @main, or a part of the diagnostics
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.program; }

class AcceptedTest : public testing::TestWithParam<Case> {};
TEST_P(AcceptedTest, HasType) { EXPECT_EQ(TypeOfMain(GetParam().program), GetParam().expected); }

class RejectedTest : public testing::TestWithParam<Case> {};
TEST_P(RejectedTest, SaysWhy) {
  std::string text = TypeOfMain(GetParam().program);
  EXPECT_NE(text.find(GetParam().expected), std::string::npos) << text;
  // One mistake, one error.
  EXPECT_EQ(text.find("error: "), text.rfind("error: ")) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Functions, AcceptedTest,
    testing::ValuesIn(std::initializer_list<Case>{
        {"def @main() { 1 }", "fn () -> int32"},
        {"def @main(%x: int32) { (%x, True) }", "fn (int32) -> (int32, bool)"},
        {"def @main(%x: (int32, bool)) { %x.1 }", "fn ((int32, bool)) -> bool"},
        {"def @f(%x) { (%x, %x) } def @main(%y: int32) { @f(%y) }", "fn (int32) -> (int32, int32)"},
        {"def @main(%y: (int32, bool)) { @f(%y).1 } def @f(%x) { (%x, %x.1) }", "fn ((int32, bool)) -> bool"},
        {"def @id[A](%x: A) -> A { %x } def @main() { (@id(1), @id(True)) }", "fn () -> (int32, bool)"},
        {"def @main() { let %f = fn (%x) { %x + 1 }; %f(2) }", "fn () -> int32"},
        {"def @main() { let %id = fn [A](%x: A) -> A { %x }; (%id(1), %id(2.0f)) }", "fn () -> (int32, float32)"},
        {"def @main(%n: int32) { let %f = fn (%i: int32) -> int32 { if (%i == 0) { 0 } else { %f(%i - 1) } }; %f(%n) }",
         "fn (int32) -> int32"},
        {"def @even(%n: int32) { if (%n == 0) { True } else { @odd(%n - 1) } }"
         "def @odd(%n: int32) { if (%n == 0) { False } else { @even(%n - 1) } } def @main() { @even(3) }",
         "fn () -> bool"},
        {"def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) } def @main() { @twice(fn (%x) { %x + 1 }, 2) }",
         "fn () -> int32"},
        {"def @main(%x: Tensor[(2, 3), float32]) { let %f = add; %f(%x, 1f) }",
         "fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32]"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Adts, AcceptedTest,
    testing::ValuesIn(std::initializer_list<Case>{
        {"def @main() { Cons(1, Nil) }", "fn () -> List[int32]"},
        {"def @main() { let %x = Nil; 1 }", "fn () -> int32"},
        {"def @main(%l: List[int32]) { match (%l) { Cons(%h, _) => %h, Nil => 0 } }", "fn (List[int32]) -> int32"},
        {"def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] { match (%l) {"
         " Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil } }"
         "def @main(%l: List[int32]) { @map(fn (%x) { (%x, %x == 1) }, %l) }",
         "fn (List[int32]) -> List[(int32, bool)]"},
        {"def @main(%l: List[float32]) { @map(Some, %l) }"
         "def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] { match (%l) {"
         " Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil } }",
         "fn (List[float32]) -> List[Option[float32]]"},
        {"def @main(%p: (Color, Color)) { match (%p) { (Red, _) => 1, (_, Red) => 2, _ => 3 } }",
         "fn ((Color, Color)) -> int32"},
        {"def @main(%t: Tree[int32]) { match (%t) { Rose(%x, Cons(Rose(%y, _), _)) => %x + %y, Rose(%x, Nil) => %x } }",
         "fn (Tree[int32]) -> int32"},
        {"def @main(%l: List[int32]) { match? (%l) { Cons(%h, _) => %h } }", "fn (List[int32]) -> int32"},
    }));

INSTANTIATE_TEST_SUITE_P(Refs, AcceptedTest,
                         testing::ValuesIn(std::initializer_list<Case>{
                             {"def @main() { let %r = ref(1); let %u = (%r := 2); !%r }", "fn () -> int32"},
                             {"def @main(%r: ref(int32)) { %r := 3 }", "fn (ref(int32)) -> ()"},
                         }));

INSTANTIATE_TEST_SUITE_P(
    Dims, AcceptedTest,
    testing::ValuesIn(std::initializer_list<Case>{
        {"def @main(%x: Tensor[(n, 3), float32]) { %x + 1f }",
         "fn [n: ShapeVar](Tensor[(n, 3), float32]) -> Tensor[(n, 3), float32]"},
        {"def @f(%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { %x + %y }"
         "def @main(%a: Tensor[(4), float32]) { @f(%a, %a) }",
         "fn (Tensor[(4), float32]) -> Tensor[(4), float32]"},
        {"def @main(%c: bool, %x: Tensor[(3), float32], %y: Tensor[(?), float32]) { if (%c) { %x } else { %y } }",
         "fn (bool, Tensor[(3), float32], Tensor[(?), float32]) -> Tensor[(?), float32]"},
        {"def @main(%x: Tensor[(3), float32], %y: Tensor[(?), float32]) { Cons(%x, Cons(%y, Nil)) }",
         "fn (Tensor[(3), float32], Tensor[(?), float32]) -> List[Tensor[(?), float32]]"},
        {"def @main(%y: Tensor[(?), float32]) -> Tensor[(3), float32] { %y }",
         "fn (Tensor[(?), float32]) -> Tensor[(3), float32]"},
        {"def @main(%c: bool, %x: Tensor[(3), float32], %y: Tensor[(4), float32]) -> Tensor[(?), float32] {"
         " if (%c) { %x } else { %y } }",
         "fn (bool, Tensor[(3), float32], Tensor[(4), float32]) -> Tensor[(?), float32]"},
        {"def @main(%x: Tensor[(3), float32], %y: Tensor[(4), float32]) -> List[Tensor[(?), float32]] {"
         " Cons(%x, Cons(%y, Nil)) }",
         "fn (Tensor[(3), float32], Tensor[(4), float32]) -> List[Tensor[(?), float32]]"},
        {"def @plus<s : Shape>(%a: Tensor[s, float32], %b: Tensor[s, float32]) -> Tensor[s, float32] { %a }"
         "def @main(%a: Tensor[(10, 10), float32]) { @plus<(10, 10)>(%a, %a) }",
         "fn (Tensor[(10, 10), float32]) -> Tensor[(10, 10), float32]"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Mistakes, RejectedTest,
    testing::ValuesIn(std::initializer_list<Case>{
        {"def @main() { if (1) { 2 } else { 3 } }", "the condition has type `int32`; expected `bool`"},
        {"def @main() { if (True) { 2 } else { 3f } }", "the `else` branch has type `float32`; expected `int32`"},
        {"def @main(%x: int32) -> bool { %x }", "the body of `@main` has type `int32`; expected `bool`"},
        {"def @main() { let %x: bool = 1; %x }", "the value of `%x` has type `int32`; expected `bool`"},
        {"def @f(%x: int32) { %x } def @main() { @f(True) }", "argument 1 of `@f` has type `bool`; expected `int32`"},
        {"def @f(%x: int32) { %x } def @main() { @f(1, 2) }", "`@f` is called with 2 arguments; expected 1"},
        {"def @main() { (1, 2).5 }", "field 5 of a tuple of type `(int32, int32)`; expected an index below 2"},
        {"def @main(%x: int32) { %x(1) }", "`%x` is called but has type `int32`; expected a function"},
        {"def @main() { let %f = fn (%x) { %x(%x) }; 1 }", "[infinite-type]"},
        {"def @main() { fn (%x) { %x } }", "the type of `%x` is not determined"},
        {"def @main(%l: List[int32]) { match (%l) { Cons(%h, _) => %h } }", "does not cover `Nil`"},
        {"def @main(%p: (Color, Color)) { match (%p) { (Red, _) => 1, (_, Red) => 2 } }",
         "does not cover `(Green, Green)`, `(Green, Blue)`, `(Blue, Green)`, `(Blue, Blue)`"},
        {"def @main(%x: Tensor[(3), float32], %y: Tensor[(4), float32]) { %x + %y }", "[shape-mismatch]"},
        {"def @f(%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { %x + %y }"
         "def @main(%a: Tensor[(4), float32], %b: Tensor[(5), float32]) { @f(%a, %b) }",
         "argument 2 of `@f` has type `Tensor[(5), float32]`; expected `Tensor[(4), float32]`"},
        {"def @main(%c: bool, %x: Tensor[(3), float32], %y: Tensor[(4), float32]) { if (%c) { %x } else { %y } }",
         "the `else` branch has type `Tensor[(4), float32]`; expected `Tensor[(3), float32]`"},
        {"def @main() { !3 }", "the reference that is read has type `int32`"},
        {"def @main() { Cons(1, Cons(True, Nil)) }", "[type-mismatch]"},
    }));

}  // namespace
}  // namespace rvm::typing
