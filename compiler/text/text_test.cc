#include <gtest/gtest.h>

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/ops/suggest_operator.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"

namespace rvm::text {
namespace {

struct Parsed {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics{&sources};
  ir::Module module;
  uint32_t source = 0;
  bool ok = false;

  explicit Parsed(std::string text) {
    source = sources.Add("test.relay", std::move(text));
    ok = ParseModule(source, module, diagnostics);
  }
};

class RoundTrip : public testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, PrintsWhatReadsBackEqual) {
  Parsed first(GetParam());
  ASSERT_TRUE(first.ok) << first.diagnostics.Render();
  std::string printed = PrintModule(first.module);
  Parsed second(printed);
  ASSERT_TRUE(second.ok) << second.diagnostics.Render() << printed;
  EXPECT_TRUE(ir::StructurallyEqual(first.module, second.module)) << printed;
  EXPECT_EQ(PrintModule(second.module), printed);
}

const char* const kPrograms[] = {
    "def @main() -> int32 { 1 }",
    "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {\n"
    "  let %k = 2f;\n  %0 = %x * %k + 1.5f;\n  %1 = maximum(%0, -1e-1f);\n  clip(%1, a_min=-6.0f, a_max=6.0f)\n}",
    "type Tree[A] { Leaf(A), Node(Tree[A], A, Tree[A]), Empty, }\n"
    "def @depth[A](%t: Tree[A]) -> int32 { match (%t) { Empty => 0, Leaf(_) => 1,\n"
    "  Node(%l, _, %r) => { let %a = @depth(%l); let %b = @depth(%r); 1 + maximum(%a, %b) }, } }",
    "data List<a> { Cons(a, List<a>) Nil }\n"
    "def @len<a>(%l: List<a>) -> int32 { match (%l) { case Cons(%h, %t) { 1 + @len(%t) } case Nil { 0 } } }",
    "data List<a> { Cons : (a, List<a>) -> List, Nil : () -> List }\ndef @f(%l: List[int32]) { match (%l) { | Nil -> 0 "
    "| Cons(h, _) -> %h } }",
    "def @main(%n: int32) -> int32 { let %go: fn (int32, int32) -> int32 = fn (%i: int32, %acc: int32) -> int32 {\n"
    " if (%i == 0) { %acc } else if (%i < 0) { -1 } else { %go(%i - 1, %acc + %i) } }; %go(%n, 0) }",
    "def @main(%x: float32) { let %r = ref(%x); %r := !%r * 2f; ref_write(%r, ref_read(%r)); let %p = ((%x, !%r), 0);\n"
    " (%p.0.0, (%p.0).1, (%x,), ()) }",
    "def @main(%x: int32) { (%x - 1) * 2 - (%x - (3 - %x)) / 4 == -%x }",
    "def @f<s : Shape>(%a: Tensor[s, float32], %b: Tensor[s, float32]) -> Tensor[s, float32] { add(%a, %b) }\n"
    "def @main(%x: Tensor[(10, 10), float32]) { @f<(10, 10)>(%x, Constant(1, (10, 10), float32)) }",
    "def @f(%x: Tensor[(n, m + 1), float32]) -> Tensor[(n * 2, ?), float32] { %x }",
    "def @f(%t: ((int32,), int32)) -> int32 { match (%t) { (((%x)), (1)) => %x, ((%x,), _) => 2 } }",
    "def @f(%x: Tensor[(n, 4), float32]) { reshape(%x, newshape=[n, -1, 2]) }",
    "free_var %w: Tensor[(3, 4), float32];\nfree_var %x: Tensor[(1, 4), float32];\nnn.dense(%x, %w, units=None)",
    "def @main() { (1i8, 2u16, -3i64, 1.5f16, 2bf16, 1e300f64, inff, -inff64, nanf, True, 4294967296, "
    "Constant([1, 2, 3], (3), int64)) }",
    "def @main() { (9223372036854775808u64, Constant([0, 9223372036854775808], (2), uint64), "
    "Constant(18446744073709551615, (2), uint64), Constant(9007199254740993, (2), int64)) }",
    "def @main(%f: fn (int32) -> int32) -> fn (int32) -> int32 { fn (%y: int32) { %f(%f(%y)) } }",
    "def @main(%x: int32) { let %x = %x + 1; let %x = %x + 1; %x }",
    "def @main(%x: int32) { ref_write(ref(1), 2); %x }",
    "def @main(%x: ref(int32)) { match? (%x) { %y: ref(int32) => !%y } }",
    "def @main(%x: (int32, int32)) -> int32 { match (%x) { (_, _) => ({ let %y = %x; %y }).0, (%a, %b) => ({ let %c = "
    "%a; %c }) + %b } }",
    "type A { X(B[int32]), Y(List[A]) }\ntype B[T] { Z(T, A) }\ndef @main() -> A { Y(Cons(X(Z(1, Y(Nil))), Nil)) }",
    "type lib.T { A(int32), B }\nfree_var %lib.w: int32;\ndef @lib.f(%x: lib.T) -> int32 { match (%x) { A(%y) => %y, "
    "lib.T.B => %lib.w } }\ndef @lib() { @lib.f(lib.T.A(3)) }",
    "def @main(%f: fn (int32) -> int32, %x: int32) { (Some<fn (int32) -> int32>(%f), (%x + 1 < %x) > (%x < 2)) }",
    "def @f[A, B](%x: A) -> B where mean(A, B, axis=[0], keepdims=True), Identity(A, A) { @f(%x) }\ndef @main() { 1 }",
    "extern type Map[K, V]\ndef @main() { () }",
    "def @main(%p: (int32, (bool, int32))) { let (%a, (%b, _)) = %p; let (%c: int32, %d) = (%a, %b); { let (%e,) = "
    "(%c,); "
    "%e } + %c }",
    "def @main(%x: int32, %b: bool) { match ((%x, %b)) { (0, True) => [], (-1, _) => [%x, 2], _ => [-1] } }",
    "def @main(%l: List[int64]) { match (%l) { [] => 0i64, [5i64, %x] => %x, Cons(%x, _) => %x } }",
    "def @rev(%x: int32) { %x }\ndef @main(%l: List[int32]) { (@map(fn (%x: int32) { @rev(%x) }, @prelude.rev(%l))) }",
    "type List { Nil, More(List) }\ntype Option { None }\ndef @main(%l: prelude.List[int32], %m: List) -> "
    "prelude.Option[int32] { "
    "match (%l) { prelude.List.Nil => prelude.Option.None, Cons(%x, _) => match (%m) { Nil => Some(%x), More(_) => "
    "@nth([Some(1)], 0) } } }",
    "type A { X, Y }\ntype B { X(A) }\ndef @main() { B.X(A.X) }",
    "def @main(%x: Tensor[(4), float32]) { fn (%p: Tensor[(4), float32], Primitive=1, hash=\"a\\n\\\"b\") { %p }(%x) }",
    "def @main[n: ShapeVar, m: ShapeVar](%x: Tensor[(max(n - 1, 0), min(n, 2 * (m + mod(n, 2))), broadcast(n, m), "
    "max), "
    "float32], %y: Tensor[(mod(min(n, m), 3) / 2), bool]) { %x }",
};
INSTANTIATE_TEST_SUITE_P(Programs, RoundTrip, testing::ValuesIn(kPrograms));

TEST(Format, KeepsCommentsAndIsIdempotent) {
  const char* text =
      "// on top\ntype L { N } # a type\n/* of f */ def @f(%x: int32) {\n // first\n let %y = %x; /* then */ %y }\n// "
      "end";
  Parsed parsed(text);
  std::string formatted = Format(parsed.source, parsed.diagnostics);
  for (const char* comment : {"// on top", "// a type", "/* of f */", "// first", "/* then */", "// end"}) {
    EXPECT_NE(formatted.find(comment), std::string::npos) << comment << "\n" << formatted;
  }
  Parsed again(formatted);
  EXPECT_EQ(Format(again.source, again.diagnostics), formatted);
}

TEST(Format, KeepsNamesAndBreaksLongParameterLists) {
  Parsed parsed(
      "def @f(%x: int32) { let %x = %x + 1; %x } def @g(%x: Tensor[(10, 20, 30), float32], "
      "%y: Tensor[(10, 20, 30), float32], %z: int32) -> Tensor[(10, 20, 30), float32] { %x }");
  std::string formatted = Format(parsed.source, parsed.diagnostics);
  EXPECT_EQ(formatted.find("%x_1"), std::string::npos) << formatted;
  EXPECT_NE(formatted.find("@g(\n    %x: Tensor[(10, 20, 30), float32],\n"), std::string::npos) << formatted;
}

TEST(Format, WritesWhatThePredecessorReads) {
  struct Case {
    const char* text;
    const char* formatted;
  };
  const Case cases[] = {
      {"def @main(%x: int32 /* ty=int32 */) { add(%x, 1 /* ty=int32 span=a:1:2 */) /* ty=int32 */ }", "%x + 1\n"},
      {"def @main(%x: ((int32, int32), int32)) { %x.0.1 }", "(%x.0).1\n"},
      {"def @main(%x: Tensor[(4), float32]) { split(%x, indices_or_sections=2).0 }",
       "(split(%x, indices_or_sections=2)).0\n"},
      {"def @main(%x: float32) { nn.leaky_relu(%x, alpha=0.25) }", "alpha=0.25f"},
      {"def @main(%x: int32) { let %y = match (%x) { _ => 1 }; %y }", "let %y = (match (%x) {"},
      {"def @main(%x: int32) { let %y = { let %z = 1; %z }; %y }", "let %y = ({"},
      {"def @main(%x: bool) { if (%x) { 1 } else if (%x) { 2 } else { 3 } }", "else {\n    if (%x) {"},
      {"def @main() { # one\n 1 }", "// one\n"},
      {"def @main(%x: Tensor[(meta[tir.SizeVar][0]), float32]) { %x }",
       "def @main(%x: Tensor[(meta[tir.SizeVar][0]), float32]) {"},
      {"def @main() { arange(0, 5, 1, start=meta[relay.Constant][0], dtype=\"int32\") }",
       "arange(0, 5, 1, start=meta[relay.Constant][0], dtype=\"int32\")"},
  };
  for (const Case& expected : cases) {
    Parsed parsed(expected.text);
    ASSERT_TRUE(parsed.ok) << parsed.diagnostics.Render();
    std::string formatted = Format(parsed.source, parsed.diagnostics);
    EXPECT_NE(formatted.find(expected.formatted), std::string::npos) << formatted;
    EXPECT_EQ(formatted.find("ty="), std::string::npos) << formatted;
  }
}

// `relay.Function` of (%x + %x) whose sum has two parents.
const char* const kSavedModule = R"({"root": 1, "nodes": [
  {"type_key": ""},
  {"type_key": "relay.Function", "attrs": {"params": "2", "body": "3", "ret_type": "0", "type_params": "0",
                                           "attrs": "0"}},
  {"type_key": "Array", "data": [4]},
  {"type_key": "relay.Tuple", "attrs": {"fields": "5"}},
  {"type_key": "relay.Var", "attrs": {"vid": "6", "type_annotation": "8"}},
  {"type_key": "Array", "data": [10, 10]},
  {"type_key": "relay.Id", "attrs": {"name_hint": "7"}},
  {"type_key": "runtime.String", "repr_str": "x:0"},
  {"type_key": "relay.TensorType", "attrs": {"dtype": "float32", "shape": "9"}},
  {"type_key": "Array", "data": [13, 14]},
  {"type_key": "relay.Call", "attrs": {"op": "11", "args": "12", "attrs": "0", "type_args": "0"}},
  {"type_key": "Op", "repr_str": "add"},
  {"type_key": "Array", "data": [4, 4]},
  {"type_key": "tir.SizeVar", "attrs": {"dtype": "int32", "name": "15"}},
  {"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "3"}},
  {"type_key": "runtime.String", "repr_str": "n"}], "b64ndarrays": [], "attrs": {}})";

TEST(SavedModule, BecomesText) {
  Parsed parsed(kSavedModule);
  ASSERT_TRUE(parsed.ok) << parsed.diagnostics.Render();
  EXPECT_EQ(PrintModule(parsed.module),
            "#[version = \"0.0.5\"]\n\ndef @main[n: ShapeVar](%x_0: Tensor[(n, 3), float32]) {\n"
            "  %0 = %x_0 + %x_0;\n  (%0, %0)\n}\n");
}

// Each node in turn is nothing, or the root: an error or a module, and no crash.
TEST(SavedModule, SurvivesDamage) {
  std::string text = kSavedModule;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!std::isdigit(static_cast<unsigned char>(text[at]))) continue;
    for (char digit : {'0', '1', '3', '9'}) {
      std::string damaged = text;
      damaged[at] = digit;
      Parsed parsed(damaged);
      EXPECT_NE(parsed.ok, parsed.diagnostics.errors() > 0) << damaged;
      if (parsed.ok) PrintModule(parsed.module);
    }
  }
  for (size_t length = 1; length < text.size(); length += 7) EXPECT_FALSE(Parsed(text.substr(0, length)).ok);
}

// Origins stand for places in diagnostics, and are printed where they change.
TEST(Origins, AreReadAndPrinted) {
  Parsed parsed(
      "def @f(%x: float32) {\n  #[origin = \"node `a \\\"b\\\"` of m.onnx\"]\n  let %a = %x + 1f;\n"
      "  let %b = %a * 2f;\n  #[origin = \"node `c` of m.onnx\"]\n  if (%b < 1f) { %a } else { %b }\n}\n"
      "#[origin = \"\"]\ndef @main(%x: float32) { @f(%x) }");
  ASSERT_TRUE(parsed.ok) << parsed.diagnostics.Render();
  const ir::Expr* first = ir::Cast<ir::Let>(parsed.module.functions[0].function->body)->value;
  EXPECT_EQ(parsed.sources.PlaceText(first->span), "node `a \"b\"` of m.onnx");
  EXPECT_EQ(parsed.sources.PlaceText(parsed.module.functions[0].span), "test.relay:1:5");
  EXPECT_EQ(parsed.sources.PlaceText(parsed.module.functions[1].function->body->span), "test.relay:9:26");
  std::string printed = PrintModule(parsed.module, &parsed.sources);
  EXPECT_EQ(printed,
            "#[version = \"0.0.5\"]\n\ndef @f(%x: float32) {\n  #[origin = \"node `a \\\"b\\\"` of m.onnx\"]\n"
            "  let %a = %x + 1f;\n  let %b = %a * 2f;\n  #[origin = \"node `c` of m.onnx\"]\n"
            "  if (%b < 1f) {\n    %a\n  } else {\n    %b\n  }\n}\n\n"
            "#[origin = \"\"]\ndef @main(%x_1: float32) {\n  @f(%x_1)\n}\n");
  Parsed again(printed);
  ASSERT_TRUE(again.ok);
  EXPECT_EQ(PrintModule(again.module, &again.sources), printed);
  EXPECT_EQ(PrintModule(again.module).find("origin"), std::string::npos);
  EXPECT_EQ(Format(again.source, again.diagnostics).find("node `c`"), printed.find("node `c`"));
}

struct Rejected {
  const char* text;
  const char* message;
};
class Reject : public testing::TestWithParam<Rejected> {};

TEST_P(Reject, SaysWhy) {
  Parsed parsed(GetParam().text);
  EXPECT_FALSE(parsed.ok);
  EXPECT_NE(parsed.diagnostics.Render().find(GetParam().message), std::string::npos) << parsed.diagnostics.Render();
}

const Rejected kRejected[] = {
    {"def @main() { %x }", "no variable is named `%x`"},
    {"def @main(%xs: int32) { %xz }", "did you mean `%xs`?"},
    {"def @main() { @man() }", "did you mean `@main`?"},
    {"def @main(%x: int32) { addd(%x, %x) }", "did you mean `add`?"},
    {"def @main() { foldl(1) }", "no operator is named `foldl`; did you mean `@foldl`?"},
    {"def @main() { fold(1) }", "did you mean `@foldl`?"},
    {"def @main() { @maap(1) }", "did you mean `@map`?"},
    {"def @main() { @relu(1f) }", "no function is named `@relu`; did you mean `nn.relu`?"},
    {"def @main() { %relu(1f) }", "no variable is named `%relu`; did you mean `nn.relu`?"},
    {"def @main(%step: int32) { stpe }", "no operator or variable is named `stpe`; did you mean `%step`?"},
    {"def @main(%x: int32) { %X }", "did you mean `%x`?"},
    {"def @helper(%x: int32) { %x } def @main() { hepler(1) }", "did you mean `@helper`?"},
    {"def @main() { nil }", "did you mean `Nil`?"},
    {"def @main() { Softmax(1f) }", "no constructor is named `Softmax`; did you mean `nn.softmax`?"},
    {"def @main() { square(2f) }", "note: the square of `%x` is `%x * %x`"},
    {"def @main(%l: list[int32]) { 1 }", "no type is named `list`; did you mean `List`?"},
    {"def @main(%l: Lits[int32]) { 1 }", "no type is named `Lits`; did you mean `List`?"},
    {"def @main(%o: Option[int32]) { match (%o) { Nonee => 1, Some(%x) => %x } }", "did you mean `None`?"},
    {"def @main(%x: Tensor[(2), double]) { 1 }", "no dtype is named `double`; did you mean `float64`?"},
    {"def @f() { { 1 } def @g() { 1 } type A { X } def @h(%a: A) { 1 }", "saw `def`"},
    {"#[origin = 3]\ndef @main() { 1 }", "saw `3`; expected a string"},
    {"#[orign = \"a\"]\ndef @main() { 1 }", "expected `#[version = \"0.0.5\"]`, `#[origin = "},
    {"def @main() { #[origin = \"a\"] }", "saw `}`; expected an expression"},
    {"extern type A\nextern type A\ndef @main(%a: A) { %a }", "type `A` is defined twice"},
    {"def @main() { 1", "saw the end of the text; expected `}`"},
    {"def @main() { let %x = 1; }", "saw `}`; expected an expression"},
    {"def @main() { 1; }", "saw `}` after `;`; expected an expression"},
    {"def @main() { 300u8 }", "does not fit uint8"},
    {"def @main() { -1u8 }", "does not fit uint8"},
    {"def @main() { 9223372036854775808 }", "does not fit int64"},
    {"def @main() { Constant([0, 9223372036854775808], (2), int64) }", "does not fit int64"},
    {"def @main() { Constant([18446744073709551616], (1), uint64) }", "does not fit"},
    {"def @main() { $ }", "unexpected character `$`"},
    {"def @main() { /* 1 }", "this comment has no end"},
    {"def @f() { 1 } def @f() { 2 }", "`@f` is defined twice"},
    {"type A { X, X } def @main() { X }", "constructor `X` is defined twice"},
    {"type A { X } def @f(%a: A) { match (%a) { Y => 1 } }", "no constructor is named `Y`"},
    {"def @f(%x: Lst) { 1 }", "no type is named `Lst`"},
    {"def @f(%x: Tensor[(3), float33]) { 1 }", "no dtype is named `float33`"},
    {"def @f(%x: int32, %x: int32) { 1 }", "parameter `%x` is defined twice"},
    {"#[version = \"0.0.9\"]\ndef @main() { 1 }", "format version"},
    {"def @main(%x: Tensor[(2), float32]) { add(%x, meta[relay.Constant][0]) }", "no metadata section"},
    {"def @main() { ref(1, 2) }", "`ref` is called with 2 arguments; expected 1"},
    {"def @main() { Constant([1, 2], (3), int32) }", "lists 2 elements; its shape (3) has 3"},
    {"type L[A] { N } def @f(%x: L) { 1 }", "is given 0 type arguments; expected 1"},
    {"def @main(%x: Tensor[(2), float32]) { sum(%x, axis=1, axis=2) }", "given twice"},
};
INSTANTIATE_TEST_SUITE_P(Texts, Reject, testing::ValuesIn(kRejected));

TEST(ForeignNames, AreFunctionsOfThePrelude) {
  for (const ops::ForeignName& row : ops::ForeignNames()) {
    if (!row.name.starts_with("@")) continue;
    Parsed parsed(absl::StrCat("def @main() { ", Abseil(row.name), " }"));
    EXPECT_TRUE(parsed.ok) << row.other << " means " << row.name;
  }
}

TEST(Prelude, OnlyWhatIsMentionedIsLoaded) {
  EXPECT_TRUE(Parsed("def @main() { 1 }").module.adts.empty());
  Parsed parsed("def @main(%xs: List[int32]) -> int32 { @length(%xs) }");
  ASSERT_TRUE(parsed.ok) << parsed.diagnostics.Render();
  EXPECT_EQ(parsed.module.adts.size(), 1u);
  EXPECT_EQ(parsed.module.functions.size(), 3u);  // length, foldl, main
}

TEST(Prelude, AttributesMentionNothing) {
  EXPECT_TRUE(Parsed("def @main(%x: int32) { f(%x, a=None, b=[1, None], c=((None,),)) }").module.adts.empty());
  EXPECT_EQ(Parsed("def @main(%x: int32) { let %a = (None, 1); %a }").module.adts.size(), 1u);
  EXPECT_EQ(Parsed("def @main(%x: int32) { copy((%x, None), a=[None]) }").module.adts.size(), 1u);
  EXPECT_EQ(Parsed("def @f[A](%x: A) { let %y: A = { let %z: A = None; (%z, Nil) }; %y }").module.adts.size(), 2u);
}

TEST(Prelude, OwnDefinitionsComeFirst) {
  Parsed parsed(
      "type List[A] { Nil, Cons(A, List[A]) } def @main() -> List[int32] { @map(fn (%x: int32) { %x }, Nil) }");
  ASSERT_TRUE(parsed.ok) << parsed.diagnostics.Render();
  EXPECT_EQ(parsed.module.adts.size(), 1u);
  Parsed optional(
      "def @main(%x: Optional[int32]) -> Optional[int32] { match (%x) { Some(%y) => Some(%y), None => None } }");
  ASSERT_TRUE(optional.ok) << optional.diagnostics.Render();
  EXPECT_EQ(optional.module.adts.size(), 1u);
}

TEST(Prelude, IsNotPartOfAFormattedText) {
  Parsed parsed("def @main(%xs: List[int32]) -> int32 { @length(%xs) }");
  EXPECT_EQ(Format(parsed.source, parsed.diagnostics).find("type List"), std::string::npos);
}

// The Prelude's definitions stand beside the program, not behind its last word.
TEST(Prelude, IsNotTheRestOfAnUnfinishedText) {
  for (const char* text :
       {"Nil <", "def @f() { Nil", "match (Nil) { Nil =>", "let %xs: List[int32] = Nil", "Nil; extern"}) {
    Parsed parsed(text);
    EXPECT_FALSE(parsed.ok) << text;
    EXPECT_EQ(parsed.diagnostics.Render().find("<prelude>"), std::string::npos) << parsed.diagnostics.Render();
  }
}

// Reads files from a table.
class FakeImporter : public Importer {
 public:
  explicit FakeImporter(absl::flat_hash_map<std::string, std::string> files) : files_(std::move(files)) {}
  std::optional<ImportedFile> Import(const ImportLine& line, const std::string& prefix, ir::Module& module,
                                     diagnostics::Diagnostics& diagnostics) override {
    uint32_t source = diagnostics.sources().Add(line.path, files_.at(line.path));
    if (!ParseModule(source, module, diagnostics, {.importer = this, .prefix = prefix})) return std::nullopt;
    return ImportedFile{.prefix = prefix};
  }

 private:
  absl::flat_hash_map<std::string, std::string> files_;
};

ir::Module ParseFiles(std::string text, absl::flat_hash_map<std::string, std::string> files,
                      diagnostics::Diagnostics& diagnostics) {
  FakeImporter importer(std::move(files));
  ir::Module module;
  EXPECT_TRUE(
      ParseModule(diagnostics.sources().Add("main", std::move(text)), module, diagnostics, {.importer = &importer}))
      << diagnostics.Render();
  return module;
}

TEST(Imports, AreRefusedWithoutAnImporter) {
  Parsed parsed("import \"a.relay\" as @a;\ndef @main() { @a() }");
  EXPECT_FALSE(parsed.ok);
  ASSERT_EQ(parsed.diagnostics.errors(), 1);
  EXPECT_EQ(parsed.diagnostics.all()[0].kind, diagnostics::DiagnosticKind::kImportRefused);
}

TEST(Imports, AreNotReadAfterASyntaxErrorInALine) {
  for (const char* line :
       {"import \"a\"", "import \"a\" as", "import \"a\" as @", "import \"a\" as @a(", "import \"a\" as @a(x",
        "import \"a\" as @a(x=", "import \"a\" as @a(x=\"\\q\")", "import \"\\q\" as @a",
        "import \"a\" as @a(x=\"1\" y=\"2\")", "import", "import @a", "import \"a\" as @prelude.a"}) {
    Parsed parsed(absl::StrCat(line, "\ndef @main() { 1 }"));
    EXPECT_FALSE(parsed.ok) << line;
    EXPECT_EQ(parsed.diagnostics.Render().find("import-refused"), std::string::npos) << parsed.diagnostics.Render();
  }
}

TEST(Imports, HaveNamesThatBeginWithTheFile) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module = ParseFiles("import \"a\" as @a; def @f() { @a.f() + @a(1) }",
                                 {{"a",
                                   "import \"b\" as @b; free_var %w: int32; type T { C, } def @f() { @b() } "
                                   "def @main(%x: int32) { match (C) { C => %w + %x } }"},
                                  {"b", "1 + 2"}},
                                 diagnostics);
  std::string text = PrintModule(module);
  for (const char* part : {"def @a.b() {\n  1 + 2", "def @a.f() {\n  @a.b()", "def @a(%x", "free_var %a.w", "type a.T",
                           "def @f() {\n  @a.f() + @a(1)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  ir::Module again = ParseFiles(text, {}, diagnostics);
  EXPECT_TRUE(ir::StructurallyEqual(module, again)) << text;
}

TEST(Imports, ShareThePrelude) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module = ParseFiles(
      "import \"a\" as @a; import \"b\" as @b; def @rev(%x: int32) { %x } "
      "def @main(%x: List[int32]) { (@a(%x), @b(@prelude.rev(%x)), @map(@rev, %x)) }",
      {{"a", "type List[T] { Nil, Cons(T, List[T]), } def @main(%x: List[int32]) { @rev(%x) }"},
       {"b",
        "type Pair { Nil, } def @main(%x: List[int32]) { match (@map(negative, %x)) { Cons(_, %y) => %y, "
        "List.Nil => { let %p = Nil; %x } } }"}},
      diagnostics);
  EXPECT_EQ(module.adts.size(), 2u) << PrintModule(module);
  EXPECT_NE(module.FindAdt("List"), nullptr);
  EXPECT_NE(module.FindFunction("prelude.rev"), nullptr) << PrintModule(module);
  EXPECT_NE(module.FindFunction("map"), nullptr) << PrintModule(module);
}

TEST(Imports, OfFunctionsThatNothingCallsAreLeftOut) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module module = ParseFiles("import \"a\" as @a; def @main() { @a.f() }",
                                 {{"a", "def @f() { 1 } def @g(%x: List[int32]) { @length(%x) }"}}, diagnostics);
  EXPECT_EQ(module.functions.size(), 2u) << PrintModule(module);
}

TEST(Parser, ReadsWhatStandsBehindATypeDefinition) {
  Parsed parsed("type T { A, B } match (A) { A => 1, B => 2 }");
  ASSERT_TRUE(parsed.ok) << parsed.diagnostics.Render();
  EXPECT_NE(parsed.module.FindFunction("main"), nullptr);
  for (const char* text : {"type T { A } )", "type T { A } B", "type T[A] ( { A }", "extern type T A"}) {
    EXPECT_FALSE(Parsed(text).ok) << text;
  }
}

TEST(Parser, GoesOnBehindAnErroneousDefinition) {
  Parsed parsed("def @a() { %x } def @b() { %y } def @c() { 1 }");
  EXPECT_EQ(parsed.diagnostics.errors(), 2);
}

TEST(Parser, DeepProgramsTakeNoHostStack) {
  std::string lets = "def @main(%x0: int32) {\n";
  for (int i = 0; i < 100'000; ++i) absl::StrAppend(&lets, "let %x", i + 1, " = %x", i, " + 1;\n");
  Parsed chain(lets + "%x100000 }");
  ASSERT_TRUE(chain.ok);
  EXPECT_GT(PrintModule(chain.module).size(), lets.size());
  Parsed nested("def @main() { " + std::string(50'000, '(') + "1" + std::string(50'000, ')') + " }");
  EXPECT_TRUE(nested.ok);
  std::string tuple_type = std::string(10'000, '(') + "int32";
  for (int i = 0; i < 10'000; ++i) tuple_type += ",)";
  EXPECT_TRUE(Parsed("def @f(%x: " + tuple_type + ") { 1 }").ok);
}

}  // namespace
}  // namespace rvm::text
