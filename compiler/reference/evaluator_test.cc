#include "compiler/reference/evaluator.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/text/parser.h"
#include "compiler/typing/infer_type.h"
#include "gtest/gtest.h"

namespace rvm::reference {
namespace {

constexpr std::string_view kPrelude = R"(
type List[A] { Cons(A, List[A]), Nil, }
type Tree[A] { Leaf(A), Node(Tree[A], Tree[A]), }
)";

struct Program {
  diagnostics::SourceMap sources;
  ir::Module module;
  std::string error;

  explicit Program(std::string_view text) {
    diagnostics::Diagnostics diagnostics(&sources);
    uint32_t source = sources.Add("test", std::string(kPrelude) + std::string(text));
    if (!text::ParseModule(source, module, diagnostics) || !typing::InferTypes(module, diagnostics)) {
      error = diagnostics.Render();
    }
  }
};

// Returns the value of `@main`, or the error.
std::string ValueOf(std::string_view text, std::vector<Value> args = {}, const EvaluateOptions& options = {}) {
  Program program(text);
  if (!program.error.empty()) return program.error;
  absl::StatusOr<Value> value = Evaluate(program.module, "main", args, options);
  return value.ok() ? value->ToString() : std::string(value.status().message());
}

Value Int(int64_t value) { return Value::Tensor(Literal::ScalarInt(kInt32, value)); }
Value Floats(Shape shape, std::vector<float> values) {
  return Value::Tensor(Literal::FromValues<float>(kFloat32, std::move(shape), values));
}
Value List(const std::vector<Value>& items) {
  Value list = Value::Adt("Nil", {});
  for (size_t i = items.size(); i-- > 0;) list = Value::Adt("Cons", {items[i], list});
  return list;
}

struct Case {
  std::string_view name;
  std::string_view program;
  std::string_view value;
};

class ValueTest : public testing::TestWithParam<Case> {};
TEST_P(ValueTest, IsAsWritten) { EXPECT_EQ(ValueOf(GetParam().program), GetParam().value); }

INSTANTIATE_TEST_SUITE_P(
    Programs, ValueTest,
    testing::ValuesIn(std::initializer_list<Case>{
        {"Arithmetic", "def @main() { (1 + 2 * 3, 7.5f / 2.5f, 1 == 1) }", "(7, 3f, True)"},
        {"Let", "def @main() { let %x = 2; let %y = %x * %x; %y + %x }", "6"},
        {"Graph", "def @main() { %0 = 3; %1 = %0 + %0; (%1, %0) }", "(6, 3)"},
        {"If", "def @main() { if (1 < 2) { 10 } else { 20 } }", "10"},
        {"Projection", "def @main() { let %t = (1, (2, 3)); %t.1.0 }", "2"},
        {"Closure", "def @main() { let %n = 5; let %f = fn (%x: int32) { %x + %n }; %f(1) + %f(2) }", "13"},
        {"LocalRecursion",
         "def @main() { let %n = 3; let %f = fn (%i: int32) -> int32 { if (%i == 0) { 0 } else { %n + %f(%i - 1) } }; "
         "%f(4) }",
         "12"},
        {"CapturedRecursion",
         "def @main() { let %f = fn (%i: int32) -> int32 { let %g = fn (%j: int32) -> int32 { if (%j == 0) { 1 } else "
         "{ "
         "%f(%j - 1) + 1 } }; %g(%i) }; %f(3) }",
         "4"},
        {"MutualRecursion",
         "def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }"
         "def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }"
         "def @main() { @even(10) }",
         "True"},
        {"HigherOrder",
         "def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] { match (%l) { Cons(%h, %t) => Cons(%f(%h), @map(%f, "
         "%t)), Nil => Nil, } }"
         "def @main() { @map(fn (%x: int32) { %x * 2 }, Cons(1, Cons(2, Nil))) }",
         "Cons(2, Cons(4, Nil))"},
        {"OperatorValue",
         "def @twice(%f: fn (int32, int32) -> int32, %x: int32) -> int32 { %f(%x, %x) } def @main() { @twice(add, 4) }",
         "8"},
        {"NestedPatterns",
         "def @main() { match? (Node(Node(Leaf(1), Leaf(2)), Leaf(3))) { Node(Node(_, Leaf(%a)), Leaf(%b)) => (%a, "
         "%b), } }",
         "(2, 3)"},
        {"TuplePattern", "def @main() { match ((1, (2.0f, True))) { (%a, (_, %c)) => (%c, %a), } }", "(True, 1)"},
        {"References",
         "def @main() { let %r = ref(1); let %inc = fn () { ref_write(%r, ref_read(%r) + 1) }; let %a = %inc(); let %b "
         "= "
         "%inc(); ref_read(%r) }",
         "3"},
        {"StrictLeftToRight",
         "def @main() { let %r = ref(1); let %f = fn (%k: int32) { let %u = ref_write(%r, ref_read(%r) * 10 + %k); "
         "ref_read(%r) }; (%f(1), %f(2), %f(3)) }",
         "(11, 112, 1123)"},
        {"Concatenate", "def @main() { concatenate((Constant(1, (2), int32), Constant(2, (1), int32)), axis=0) }",
         "[1, 1, 2]"},
        {"NoMatch", "def @main() { match? (Cons(1, Nil)) { Nil => 0, } }",
         "no clause of the `match?` fits `Cons` (in `main`)"},
    }),
    [](const testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

TEST(Evaluator, ReadsArgumentsByType) {
  constexpr std::string_view kSum =
      "def @main(%l: List[int32]) -> int32 { match (%l) { Cons(%h, %t) => %h + @main(%t), Nil => 0, } }";
  EXPECT_EQ(ValueOf(kSum, {List({Int(1), Int(2), Int(3)})}), "6");
  EXPECT_EQ(ValueOf(kSum, {List({Int(1), Floats({}, {2})})}),
            "argument 1 of `@main`, `%l`: saw `float32`; expected `int32`");
  EXPECT_EQ(ValueOf(kSum, {Value::Adt("Leaf", {Int(1)})}),
            "argument 1 of `@main`, `%l`: `Leaf` is no constructor of `List[int32]`");
  EXPECT_EQ(ValueOf(kSum, {Value::Adt("Cons", {Int(1)})}),
            "argument 1 of `@main`, `%l`: saw 1 fields of `Cons`; expected 2");
  EXPECT_EQ(ValueOf(kSum, {}), "`@main` is given 0 arguments; expected 1");
}

TEST(Evaluator, ChecksNamedDimsOfArguments) {
  constexpr std::string_view kAdd =
      "def @main(%a: Tensor[(n, 2), float32], %b: Tensor[(n, 2), float32]) { add(%a, %b) }";
  EXPECT_EQ(ValueOf(kAdd, {Floats({1, 2}, {1, 2}), Floats({1, 2}, {3, 4})}), "[[4f, 6f]]");
  std::string error = ValueOf(kAdd, {Floats({1, 2}, {1, 2}), Floats({2, 2}, {3, 4, 5, 6})});
  EXPECT_NE(error.find("where `n` is 1"), std::string::npos) << error;
}

TEST(Evaluator, ChecksShapesThatTypesLeftOpen) {
  constexpr std::string_view kProgram =
      "def @f(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { %x }"
      "def @main(%x: Tensor[(?), float32]) { @f(%x) }";
  EXPECT_EQ(ValueOf(kProgram, {Floats({3}, {1, 2, 3})}), "[1f, 2f, 3f]");
  std::string error = ValueOf(kProgram, {Floats({2}, {1, 2})});
  EXPECT_NE(error.find("`%x`: saw `Tensor[(2), float32]`; expected `Tensor[(3), float32]`"), std::string::npos)
      << error;
  error = ValueOf("def @main(%x: Tensor[(?), float32]) -> Tensor[(3), float32] { %x }", {Floats({2}, {1, 2})});
  EXPECT_NE(error.find("the result: saw"), std::string::npos) << error;
}

TEST(Evaluator, TailCallsTakeConstantSpace) {
  EvaluateOptions options;
  options.max_depth = 100;
  EXPECT_EQ(
      ValueOf(
          "def @loop(%i: int32, %a: int32) -> int32 { if (%i == 0) { %a } else { let %b = %a + 2; @loop(%i - 1, %b) } }"
          "def @main() { @loop(20000, 0) }",
          {}, options),
      "40000");
}

TEST(Evaluator, DeepRecursionTakesNoHostStack) {
  EXPECT_EQ(ValueOf("def @count(%i: int32) -> int32 { if (%i == 0) { 0 } else { 1 + @count(%i - 1) } }"
                    "def @main() { @count(100000) }"),
            "100000");
}

TEST(Evaluator, LongListsAreBuiltReadAndFreed) {
  std::vector<Value> items(100000, Int(1));
  std::string text = ValueOf(
      "def @main(%l: List[int32]) -> List[int32] { match (%l) { Cons(%h, %t) => %t, Nil => Nil, } }", {List(items)});
  EXPECT_EQ(text.size(), std::string("Cons(1, ").size() * 99999 + 3 + 99999);
}

TEST(Evaluator, ManyNestedLets) {
  std::string text = "def @main() { let %x0 = 1;";
  for (int i = 1; i <= 20000; ++i) absl::StrAppend(&text, "let %x", i, " = (%x", i - 1, ", 1).0;");
  EXPECT_EQ(ValueOf(absl::StrCat(text, "%x20000 }")), "1");
}

TEST(Evaluator, CyclesThroughReferencesEnd) {
  // The reference holds a closure that captures the reference.
  EXPECT_EQ(ValueOf("def @main() { let %r = ref(fn (%x: int32) { %x }); let %f = fn (%x: int32) -> int32 { "
                    "ref_read(%r)(%x) + 1 };"
                    "let %u = ref_write(%r, fn (%x: int32) { if (%x == 0) { 7 } else { %f(%x - 1) } }); %f(2) }"),
            "10");
}

TEST(Evaluator, SharedResultsAreConvertedOnce) {
  std::string text = "def @main() { let %x0 = (1, 1);";
  for (int i = 1; i <= 12; ++i) absl::StrAppend(&text, "let %x", i, " = (%x", i - 1, ", %x", i - 1, ");");
  EXPECT_FALSE(ValueOf(absl::StrCat(text, "%x12 }")).empty());
}

TEST(Evaluator, StopsAtItsLimits) {
  constexpr std::string_view kForever = "def @main(%x: int32) -> int32 { @main(%x) }";
  EvaluateOptions options;
  options.max_steps = 1000;
  EXPECT_EQ(ValueOf(kForever, {Int(1)}, options), "the evaluation takes more than 1000 steps (in `main`)");
  constexpr std::string_view kDeep = "def @main(%x: int32) -> int32 { 1 + @main(%x) }";
  options = {};
  options.max_depth = 1000;
  EXPECT_EQ(ValueOf(kDeep, {Int(1)}, options), "the evaluation nests more than 1000 deep (in `main`)");
}

TEST(Evaluator, SuggestsTheEntryMeant) {
  Program program("def @predict() { 1 }");
  absl::StatusOr<Value> value = Evaluate(program.module, "perdict", {});
  EXPECT_EQ(value.status().message(), "the program has no function `@perdict`; did you mean `@predict`?");
}

}  // namespace
}  // namespace rvm::reference
