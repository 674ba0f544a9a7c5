#include "compiler/typing/infer_type.h"

#include <cstdint>
#include <initializer_list>
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

// Returns the type of `@main` in the program, or the diagnostics.
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
        {"def @main(%x: Tensor[(2), float32x4]) { (%x + %x, %x < %x) }",
         "fn (Tensor[(2), float32x4]) -> (Tensor[(2), float32x4], Tensor[(2), boolx4])"},
        {"def @f[T: BaseType](%x: Tensor[(2), T]) { sum(%x) } def @main(%x: Tensor[(2), int8x16]) { @f(%x) }",
         "fn (Tensor[(2), int8x16]) -> int8x16"},
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

INSTANTIATE_TEST_SUITE_P(
    Relations, AcceptedTest,
    testing::ValuesIn(std::initializer_list<Case>{
        {"def @bc[A, B, C](%a: A, %b: B) -> C where Broadcast(A, B, C) { add(%a, %b) }"
         "def @main(%x: Tensor[(2, 1), float32], %y: Tensor[(3), float32]) { @bc(%x, %y) }",
         "fn (Tensor[(2, 1), float32], Tensor[(3), float32]) -> Tensor[(2, 3), float32]"},
        {"def @bc[A, B, C](%a: A, %b: B) -> C where Broadcast(A, B, C) { add(%a, %b) }"
         "def @again[A, B, C](%a: A, %b: B) -> C where Broadcast(A, B, C) { @bc(%a, %b) }"
         "def @main(%x: Tensor[(2, 1), float32], %y: Tensor[(3), float32]) { @again(%x, %y) }",
         "fn (Tensor[(2, 1), float32], Tensor[(3), float32]) -> Tensor[(2, 3), float32]"},
        // The parameters of @loop are known only from its callers.
        {"def @loop(%i, %x) { if (%i < 10) { @loop(%i + 1, %x * 2f) } else { %x } }"
         "def @main(%x: Tensor[(3), float32]) { @loop(0, %x) }",
         "fn (Tensor[(3), float32]) -> Tensor[(3), float32]"},
        {"def @main(%x: Tensor[(3, n), float32], %y: Tensor[(?, n), float32]) { concatenate((%x, %y), axis=0) }",
         "fn [n: ShapeVar](Tensor[(3, n), float32], Tensor[(?, n), float32]) -> Tensor[(?, n), float32]"},
        // Images of unknown size: an extent is that of the image, whatever the number of layers.
        {"def @main(%x: Tensor[(1, 3, h, w), float32], %f: Tensor[(3, 3, 3, 3), float32]) {"
         " let %a = nn.conv2d(%x, %f, padding=[1, 1], strides=[2, 2]);"
         " let %b = %a + nn.conv2d(nn.conv2d(%a, %f, padding=[1, 1]), %f, padding=[1, 1]);"
         " let %c = nn.max_pool2d(%b, pool_size=[3, 3], padding=[1, 1], strides=[2, 2]);"
         " %c + nn.conv2d(%c, %f, padding=[1, 1]) }",
         "fn [h: ShapeVar, w: ShapeVar](Tensor[(1, 3, h, w), float32], Tensor[(3, 3, 3, 3), float32])"
         " -> Tensor[(1, 3, ((h + -1) / 4) + 1, ((w + -1) / 4) + 1), float32]"},
        {"def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C { fn (%x) { %f(%g(%x)) } }"
         "def @main(%x: Tensor[(3), float32]) { @compose(tanh, fn (%y) { %y + 1f })(%x) }",
         "fn (Tensor[(3), float32]) -> Tensor[(3), float32]"},
        {"def @f(%g: fn [A](A) -> A) { (%g(1), %g(True)) } def @main() { @f(fn [B](%x: B) -> B { %x }) }",
         "fn () -> (int32, bool)"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Refs, AcceptedTest,
    testing::ValuesIn(std::initializer_list<Case>{
        {"def @main() { let %r = ref(1); let %u = (%r := 2); !%r }", "fn () -> int32"},
        {"def @main(%r: ref(int32)) { %r := 3 }", "fn (ref(int32)) -> ()"},
        // A result that was computed from the contents is computed again when a write makes a dim unknown.
        {"def @main(%x: Tensor[(3), float32], %y: Tensor[(?), float32]) {"
         " let %r = ref(%x); let %a = negative(!%r); let %u = (%r := %y); (%a, !%r) }",
         "fn (Tensor[(3), float32], Tensor[(?), float32]) -> (Tensor[(?), float32], Tensor[(?), float32])"},
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
        {"def @grow(%i: int32, %x: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {"
         " if (%i < 9) { @grow(%i + 1, concatenate((%x, %x), axis=0)) } else { %x } }"
         "def @main(%x: Tensor[(3, 2), float32]) { @grow(0, %x) }",
         "fn (Tensor[(3, 2), float32]) -> Tensor[(?, 2), float32]"},
        {"def @tail(%x: Tensor[(n + 1), float32]) -> Tensor[(n), float32] { strided_slice(%x, begin=[1], end=[9]) }"
         "def @main(%x: Tensor[(3), float32]) { @tail(%x) }",
         "fn (Tensor[(3), float32]) -> Tensor[(2), float32]"},
        {"def @plus<s : Shape>(%a: Tensor[s, float32], %b: Tensor[s, float32]) -> Tensor[s, float32] { %a }"
         "def @main(%a: Tensor[(10, 10), float32]) { @plus<(10, 10)>(%a, %a) }",
         "fn (Tensor[(10, 10), float32]) -> Tensor[(10, 10), float32]"},
    }));

// Shapes that are arguments, computed from extents.
constexpr std::string_view kExtents =
    "def @main(%x: Tensor[(n, 8), float32], %y: Tensor[(m, 1), float32], %z: Tensor[(k), float32], %i: int64) {"
    "let %n = extent(%x, axis=0); let %m = take(shape_of(%y), 0, axis=0); let %s = shape_of(%x, dtype=\"int64\");";

struct ShapeCase {
  std::string_view result;
  std::string_view shape;  // of that
};

class ShapeTest : public testing::TestWithParam<ShapeCase> {};
TEST_P(ShapeTest, IsKnown) {
  std::string type = TypeOfMain(std::string(kExtents) + std::string(GetParam().result) + "}");
  EXPECT_NE(type.find("-> Tensor[" + std::string(GetParam().shape) + ", "), std::string::npos)
      << GetParam().result << "\n"
      << type;
}

INSTANTIATE_TEST_SUITE_P(
    ExtentsInValues, ShapeTest,
    testing::ValuesIn(std::initializer_list<ShapeCase>{
        {"dyn.zeros(stack((%n, %i)))", "(n, ?)"},
        {"dyn.zeros(%s)", "(n, 8)"},
        {"dyn.zeros(shape_of(dyn.ones(shape_of(%x))))", "(n, 8)"},
        {"dyn.full(1f, concatenate((%s, stack((cast(%m, dtype=\"int64\") * 2i64,)))))", "(n, 8, m * 2)"},
        {"dyn.ones(reverse(%s, axis=0))", "(8, n)"},
        {"dyn.ones(strided_slice(%s, begin=[0], end=[1]))", "(n)"},
        {"dyn.ones(expand_dims(prod(%s), axis=0))", "(n * 8)"},
        {"dyn.ones(expand_dims(sum(%s), axis=0))", "(n + 8)"},
        {"dyn.ones(stack((maximum(%n + 1i64, 0i64), minimum(%n, %n + 2i64))))", "(n + 1, n)"},
        {"dyn.ones(stack((floor_divide(%n, 2i64), floor_mod(%n, 2i64), %n / 3i64)))", "(n / 2, mod(n, 2), n / 3)"},
        {"dyn.ones(stack((floor_divide(%n - 5i64, 2i64),)))", "((n - 5) / 2)"},
        // A quotient that is rounded towards 0, of what may be negative.
        {"dyn.ones(stack(((%n - 5i64) / 2i64, %n)))", "(?, n)"},
        {"let (%a, %b) = (%n, 3i64); dyn.ones(stack((%b, %a)))", "(3, n)"},
        {"let %p = split(%s, indices_or_sections=2, axis=0); dyn.ones(concatenate((%p.1, %p.0)))", "(8, n)"},
        {"dyn.ones(where(equal(%s, -1i64), Constant([1, 1], (2), int64), %s))", "(n, 8)"},
        {"dyn.ones(where(greater(%s, Constant([0, 0], (2), int64)), %s, Constant([1, 1], (2), int64)))", "(?, 8)"},
        {"dyn.ones(arange(1i64, 3i64, 1i64) * %n)", "(n, n * 2)"},
        {"dyn.ones(if (%i == 0i64) { %s } else { %s })", "(?, ?)"},
        {"dyn.ones(ndarray_size(%x) * Constant([1, 2], (2), int32))", "(n * 8, (n * 8) * 2)"},
        {"arange(0i64, %n, 1i64)", "(n)"},
        {"arange(%n, %n + cast(%m, dtype=\"int64\"), 1i64)", "(m)"},
        {"arange(0i64, %n, 2i64)", "((n + 1) / 2)"},
        {"arange(%n, 0i64, -1i64)", "(n)"},
        {"arange(2i64, %n, 1i64)", "(max(n - 2, 0))"},
        {"arange(0i64, %i, 1i64)", "(?)"},
        {"arange(0i64, %n, %i)", "(?)"},
        {"dyn.reshape(%x, stack((%n, 2i64, 4i64)))", "(n, 2, 4)"},
        {"dyn.reshape(%x, stack((%n, -1i64, 2i64)))", "(n, 4, 2)"},
        {"dyn.reshape(%x, stack((-1i64, %n)))", "((n * 8) / n, n)"},
        {"dyn.reshape(%x, stack((%n, %i)))", "(?, ?)"},
        {"dyn.reshape(%x, stack((%n, %i)), allowzero=1)", "(n, ?)"},
        {"dyn.reshape(%z, stack((%n + cast(%m, dtype=\"int64\"), 1i64)))", "(n + m, 1)"},
        // A 0 that is written copies, so an extent that may be 0 may, too.
        {"dyn.reshape(expand_dims(%x, axis=1), stack((8i64, 0i64, %n)))", "(8, 1, ?)"},
        {"dyn.broadcast_to(%y, stack((%m, cast(%n, dtype=\"int32\"))))", "(m, n)"},
        {"dyn.tile(%x, stack((2i64, %n)))", "(n * 2, n * 8)"},
        {"dyn.nn.pad(%x, stack((stack((0i64, %n)), stack((1i64, 2i64)))), 0f)", "(n + n, 11)"},
        {"dyn.topk(%x, %n, axis=0, ret_type=\"values\")", "(n, 8)"},
        {"dyn.one_hot(Constant([0], (1), int32), 1f, 0f, %n)", "(1, n)"},
        {"dyn.strided_slice(%x, stack((0i64, 2i64)), stack((%n, -1i64)), Constant([1, 1], (2), int64))", "(n, 5)"},
        {"dyn.strided_slice(%x, Constant([2], (1), int64), stack((%n,)), Constant([1], (1), int64))",
         "(n - min(n, 2), 8)"},
        {"dyn.expand_dims(%x, extent(%y, axis=1))", "(n, 1, 8)"},
        {"dyn.image.resize2d(expand_dims(%x, axis=0, num_newaxis=2), %s * 2i64, Constant([0f], (1), float32))",
         "(1, 1, n * 2, 16)"},
        {"check_extent(dyn.ones(stack((%i,))), %n, axis=0)", "(n)"},
    }));

INSTANTIATE_TEST_SUITE_P(
    BroadcastOfUnknown, AcceptedTest,
    testing::ValuesIn(std::initializer_list<Case>{
        {"def @main(%x: Tensor[(n + 2, 3, n * 2, n), int8], %m: Tensor[(?, ?, ?, ?), int8]) { %x + %m }",
         "fn [n: ShapeVar](Tensor[(n + 2, 3, n * 2, n), int8], Tensor[(?, ?, ?, ?), int8]) -> "
         "Tensor[(n + 2, 3, n * 2, ?), int8]"},
        {"def @main(%x: Tensor[(n + 2), int8], %m: Tensor[(k), int8]) { %m + %x }",
         "fn [n: ShapeVar, k: ShapeVar](Tensor[(n + 2), int8], Tensor[(k), int8]) -> Tensor[(n + 2), int8]"},
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
        {"def @main(%x: Tensor[(3), float32], %y: Tensor[(4), float32]) { %x + %y }", "[broadcast-mismatch]"},
        {"def @f(%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { %x + %y }"
         "def @main(%a: Tensor[(4), float32], %b: Tensor[(5), float32]) { @f(%a, %b) }",
         "argument 2 of `@f` has type `Tensor[(5), float32]`; expected `Tensor[(4), float32]`"},
        {"def @main(%c: bool, %x: Tensor[(3), float32], %y: Tensor[(4), float32]) { if (%c) { %x } else { %y } }",
         "the `else` branch has type `Tensor[(4), float32]`; expected `Tensor[(3), float32]`"},
        {"def @main() { !3 }", "the reference that is read has type `int32`"},
        {"def @main() { Cons(1, Cons(True, Nil)) }", "[field-type-mismatch]"},
        {"def @main() { let %r = ref(1); %r := True }",
         "the value written to a reference has type `bool`; expected `int32`"},
        {"def @main(%r: ref(Tensor[(3), float32])) -> ref(Tensor[(?), float32]) { %r }",
         "the body of `@main` has type `ref(Tensor[(3), float32])`; expected `ref(Tensor[(?), float32])`"},
        {"def @main[A](%x: A) -> int32 { %x }", "the body of `@main` has type `A`; expected `int32`"},
        {"def @f[t](%x: Tensor[t, float32], %y: t) { %x }", "type parameter `t` has kind `Shape`; expected `Type`"},
        {"def @main(%x) { %x + 1 }", "the type of `%x` is not determined (`_`); expected an annotation"},
        {"def @h(%q) { %q.0 } def @main() { @h(2) }", "projection from type `int32`; expected a tuple"},
        {"def @main(%x: int32) { nn.dense(%x) + 1 }", "`nn.dense` is called with 1 argument; expected 2"},
        {"def @f[A](%x: A) -> A where Nonsense(A) { %x }", "no relation is named `Nonsense`"},
        {"def @id[A](%x: A) -> A { %x } def @main() { @id<int32, bool>(1) }",
         "`@id` is given 2 type arguments; expected at most 1"},
        {"def @main(%l: List[int32]) { match (%l) { Red => 1, _ => 2 } }",
         "the value matched by `Red` has type `List[int32]`; expected `Color`"},
        {"def @main(%l: List[int32]) { match (%l) { Cons(%a) => 1, _ => 2 } }",
         "pattern `Cons` has 1 field; expected 2"},
        {"def @bc[A, B, C](%a: A, %b: B) -> C where Broadcast(A, B, C) { add(%a, %b) }"
         "def @main(%x: Tensor[(2, 2), float32], %y: Tensor[(3), float32]) { @bc(%x, %y) }",
         "[constraint-violated]"},
    }));

// Each line is one error: none hides another and none causes another.
TEST(InferTypeTest, ReportsAllMistakes) {
  std::string text = TypeOfMain(R"(
def @f(%x: int32) -> bool { %x }
def @g() { if (1) { @f(2) } else { @f(3f) } }
def @main() { let %z = nn.dense(1); (%z + 1, 2) })");
  size_t errors = 0;
  for (size_t at = text.find("error: "); at != std::string::npos; at = text.find("error: ", at + 1)) ++errors;
  EXPECT_EQ(errors, 4u) << text;
}

TEST(InferTypeTest, WarnsOfClausesThatAreNeverTaken) {
  std::string text = TypeOfMain("def @main(%c: Color) { match (%c) { Red => 1, _ => 2, Blue => 3 } }");
  EXPECT_NE(text.find("warning: the clause is never taken"), std::string::npos) << text;
}

// Own types and annotations are kept apart: the difference is what is checked at run time.
TEST(InferTypeTest, ValuesKeepTheirOwnTypes) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  uint32_t source =
      sources.Add("t", "def @main(%x: Tensor[(3), float32]) { let %y: Tensor[(?), float32] = negative(%x); %y }");
  ASSERT_TRUE(text::ParseModule(source, module, diagnostics));
  ASSERT_TRUE(InferTypes(module, diagnostics)) << diagnostics.Render();
  const auto* let = ir::DynCast<ir::Let>(module.FindFunction("main")->function->body);
  EXPECT_EQ(ir::TypeToString(let->value->type), "Tensor[(3), float32]");
  EXPECT_EQ(ir::TypeToString(let->var->type), "Tensor[(?), float32]");
  EXPECT_EQ(ir::TypeToString(let->type), "Tensor[(?), float32]");
}

TEST(InferTypeTest, TypesTwice) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module;
  uint32_t source =
      sources.Add("t", "def @main(%x: Tensor[(n), float32]) { let %f = fn (%y) { nn.softmax(%y) }; %f(%x) }");
  ASSERT_TRUE(text::ParseModule(source, module, diagnostics)) << diagnostics.Render();
  ASSERT_TRUE(InferTypes(module, diagnostics));
  std::string once = ir::TypeToString(module.FindFunction("main")->function->type);
  ASSERT_TRUE(InferTypes(module, diagnostics)) << diagnostics.Render();
  EXPECT_EQ(ir::TypeToString(module.FindFunction("main")->function->type), once);
}

TEST(InferTypeTest, DeepPrograms) {
  std::string lets = "def @main(%x0: Tensor[(10, n), float32]) {\n";
  for (int i = 0; i < 20'000; ++i) {
    lets += "let %x" + std::to_string(i + 1) + " = %x" + std::to_string(i) + " + 1f;\n";
  }
  EXPECT_EQ(TypeOfMain(lets + "%x20000 }"), "fn [n: ShapeVar](Tensor[(10, n), float32]) -> Tensor[(10, n), float32]");

  std::string ifs = "def @main(%x: int32) {\n";
  for (int i = 0; i < 20'000; ++i) ifs += "if (%x == 1) { 2 } else {\n";
  EXPECT_EQ(TypeOfMain(ifs + "0" + std::string(20'000, '}') + "}"), "fn (int32) -> int32");

  // A tuple of 2^60 leaves, shared.
  std::string dag = "def @main(%x0: Tensor[(3), float32]) {\n";
  for (int i = 0; i < 60; ++i) {
    std::string x = "%x" + std::to_string(i);
    dag +=
        "let %x" + std::to_string(i + 1) + " = if (True) { (" + x + ", " + x + ") } else { (" + x + ", " + x + ") };\n";
  }
  EXPECT_EQ(TypeOfMain(dag + "1 }"), "fn (Tensor[(3), float32]) -> int32");
}

}  // namespace
}  // namespace rvm::typing
