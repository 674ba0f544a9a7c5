#include "compiler/builder/program_builder.h"

#include <gtest/gtest.h>

#include <memory>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/text/parser.h"
#include "compiler/text/printer.h"
#include "compiler/typing/infer_type.h"

namespace rvm::builder {
namespace {

// docs/builder.md shows this function; tests/docs_test.py compares.
// [example]
absl::StatusOr<ir::Module> ListProgram() {
  ProgramBuilder b;
  Type vector = b.Tensor({3}, kFloat32);
  DataTypeBuilder list = b.NewType("List", {"A"});
  list.Constructor("Cons", {list.Param(0), list.Self()}).Constructor("Nil");
  Value w = b.Weight("w", b.Tensor({3, 3}, kFloat32));

  // A recurrent network, folded over a list of vectors.
  Value step = b.Define("step", {{"h", vector}, {"x", vector}}, vector, [&](Values v) {
    Value row = b.Op("reshape", {v[1]}, {{"newshape", ir::AttrValue::List{1, 3}}});
    Value y = b.Op("reshape", {b.Op("nn.dense", {row, w})}, {{"newshape", ir::AttrValue::List{3}}});
    return b.Op("tanh", {v[0] * 0.5f + y});
  });
  b.Define("main", {{"xs", list.Of({vector})}, {"h", vector}}, vector, [&](Values v) {
    return b.Match(v[0], {
                             {Pattern::Of("Nil"), [&](Values) { return v[1]; }},
                             {Pattern::Of("Cons", {Pattern::Var("x"), Pattern::Var("rest")}),
                              [&](Values fields) { return b.Global("main")(fields[1], step(v[1], fields[0])); }},
                         });
  });
  return std::move(b).Finish();
}
// [end]

void ExpectText(absl::StatusOr<ir::Module> module, std::string text) {
  ASSERT_TRUE(module.ok()) << module.status();
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  EXPECT_TRUE(typing::InferTypes(*module, diagnostics)) << diagnostics.Render();
  ir::Module read;
  ASSERT_TRUE(text::ParseModule(sources.Add("expected", std::move(text)), read, diagnostics)) << diagnostics.Render();
  EXPECT_TRUE(typing::InferTypes(read, diagnostics)) << diagnostics.Render();
  EXPECT_TRUE(ir::StructurallyEqual(*module, read)) << text::PrintModule(*module);
}

TEST(ProgramBuilder, BuildsTheExample) {
  ExpectText(ListProgram(), R"(
type List[A] { Cons(A, List[A]), Nil, }
free_var %w: Tensor[(3, 3), float32];
def @step(%h: Tensor[(3), float32], %x: Tensor[(3), float32]) -> Tensor[(3), float32] {
  let %a = reshape(%x, newshape=[1, 3]);
  let %b = nn.dense(%a, %w);
  let %c = reshape(%b, newshape=[3]);
  let %d = %h * 0.5f;
  let %e = %d + %c;
  tanh(%e)
}
def @main(%xs: List[Tensor[(3), float32]], %h: Tensor[(3), float32]) -> Tensor[(3), float32] {
  match (%xs) {
    Nil => %h,
    Cons(%x, %rest) => { let %s = @step(%h, %x); @main(%rest, %s) },
  }
}
)");
}

TEST(ProgramBuilder, ReferencesLoopsAndTuples) {
  ProgramBuilder b;
  b.Define("main", {{"n", b.Scalar(kInt32)}}, nullptr, [&](Values v) {
    Value total = b.NewRef(0).Named("total");
    Value loop = b.Lambda("loop", {{"i", b.Scalar(kInt32)}}, b.Tuple({}), [&](const Value& self, Values i) {
      return b.If(
          i[0] < v[0],
          [&] {
            b.Write(total, b.Read(total) + i[0]);
            return self(i[0] + 1);
          },
          [&] { return b.TupleOf({}); });
    });
    loop(0).Named("_");
    return b.TupleOf({b.Read(total), 1}).Field(0);
  });
  ExpectText(std::move(b).Finish(), R"(
def @main(%n: int32) {
  let %total = ref(0);
  let %loop = fn (%i: int32) -> () {
    let %c = %i < %n;
    if (%c) {
      let %old = ref_read(%total);
      let %new = %old + %i;
      let %done = ref_write(%total, %new);
      let %next = %i + 1;
      %loop(%next)
    } else { () }
  };
  let %ran = %loop(0);
  let %sum = ref_read(%total);
  let %pair = (%sum, 1);
  %pair.0
}
)");
}

TEST(ProgramBuilder, QuantifiesNamedDimsAndTypes) {
  ProgramBuilder b;
  Dim n = b.NamedDim("n");
  b.Define("twice", {{"x", b.Tensor({n}, kFloat32)}}, b.Tensor({n}, kFloat32), [&](Values v) { return v[0] + v[0]; });
  Type a = b.TypeParameter("A");
  b.Define("apply", {{"f", b.Function({a}, a)}, {"x", a}}, a, [&](Values v) { return v[0](v[1]); });
  ExpectText(std::move(b).Finish(), R"(
def @twice[n: ShapeVar](%x: Tensor[(n), float32]) -> Tensor[(n), float32] { %x + %x }
def @apply[A](%f: fn (A) -> A, %x: A) -> A { %f(%x) }
)");
}

TEST(ProgramBuilder, CollectsMistakes) {
  ProgramBuilder b;
  b.NewType("Bit").Constructor("Zero").Constructor("One");
  b.Define("main", {}, nullptr, [&](Values) {
    b.Op("sigmoyd", {1.0f});
    b.Constructor("Zeroo")();
    return b.Global("mian")();
  });
  absl::StatusOr<ir::Module> module = std::move(b).Finish();
  EXPECT_EQ(module.status().message(),
            "no operator is named `sigmoyd`; did you mean `sigmoid`?\n"
            "no constructor is named `Zeroo`; did you mean `Zero`?\n"
            "no function is named `@mian`; did you mean `main`?");
}

TEST(ProgramBuilder, KnowsTypesWhileBuilding) {
  ProgramBuilder b;
  Dim n = b.NamedDim("n");
  EXPECT_EQ(b.NamedDim("n"), n);
  std::vector<std::string> types;
  auto note = [&](const Value& value) {
    types.push_back(ir::TypeToString(b.TypeOf(value)));
    return value;
  };
  Type vector = b.Tensor({n}, kFloat32);
  Value twice = b.Define("twice", {{"x", vector}}, nullptr, [&](Values v) { return note(v[0] + v[0]); });
  b.Define("main", {{"x", b.Tensor({2, 3}, kFloat32)}}, nullptr, [&](Values v) {
    Value flat = note(b.Op("reshape", {v[0]}, {{"newshape", ir::AttrValue::List{-1}}}));
    Value sum = note(twice(flat));
    Value pair = note(b.TupleOf({sum, b.Op("shape_of", {v[0]})}));
    note(pair.Field(1));
    Value some = b.Op("strided_slice", {flat}, {{"begin", ir::AttrValue::List{0}}, {"end", ir::AttrValue::List{2}}});
    Value either = note(b.If(true, [&] { return flat; }, [&] { return some; }));
    Value ref = note(b.NewRef(either));
    note(b.Read(ref));
    Value loop = b.Lambda("loop", {{"i", b.Scalar(kInt32)}}, vector,
                          [&](const Value& self, Values i) { return note(self(i[0] + 1)); });
    return note(loop(0));
  });
  std::vector<std::string> expected = {"Tensor[(n), float32]",      "Tensor[(6), float32]",
                                       "Tensor[(6), float32]",      "(Tensor[(6), float32], Tensor[(2), int32])",
                                       "Tensor[(2), int32]",        "Tensor[(?), float32]",
                                       "ref(Tensor[(?), float32])", "Tensor[(?), float32]",
                                       "Tensor[(n), float32]",      "Tensor[(n), float32]"};
  EXPECT_EQ(types, expected);
}

TEST(ProgramBuilder, KnowsTypesOfFieldsAndConstructors) {
  ProgramBuilder b;
  DataTypeBuilder list = b.NewType("List", {"A"});
  list.Constructor("Cons", {list.Param(0), list.Self()}).Constructor("Nil");
  Type element = b.Scalar(kFloat32);
  std::vector<Type> types;
  b.Define("main", {{"xs", list.Of({element})}}, nullptr, [&](Values v) {
    return b.Match(v[0], {{Pattern::Of("Nil"), [&](Values) { return v[0]; }},
                          {Pattern::Of("Cons", {Pattern::Var("x"), Pattern::Var("rest")}), [&](Values fields) {
                             types.push_back(b.TypeOf(fields[0]));
                             Value longer = b.Constructor("Cons")(fields[0] + 1.0f, v[0]);
                             types.push_back(b.TypeOf(longer));
                             types.push_back(b.TypeOf(b.Constructor("Nil")()));
                             return longer;
                           }}});
  });
  EXPECT_EQ(ir::TypeToString(types[0]), "float32");
  EXPECT_EQ(ir::TypeToString(types[1]), "List[float32]");
  EXPECT_EQ(types[2], nullptr);
}

TEST(ProgramBuilder, ExtendsAModule) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  ir::Module helpers;
  const char* text = "type Pair { Both(int32, int32), } def @next(%x: int32) -> int32 { %x + 1 }";
  ASSERT_TRUE(text::ParseModule(sources.Add("helpers", text), helpers, diagnostics)) << diagnostics.Render();
  ProgramBuilder b(std::move(helpers));
  b.Define("main", {{"x", b.Scalar(kInt32)}}, b.DataType("Pair").Self(), [&](Values v) {
    Value next = b.Global("next")(v[0]);
    EXPECT_EQ(ir::TypeToString(b.TypeOf(next)), "int32");
    return b.Constructor("Both")(v[0], next);
  });
  ExpectText(std::move(b).Finish(), R"(
type Pair { Both(int32, int32), }
def @next(%x: int32) -> int32 { %x + 1 }
def @main(%x: int32) -> Pair { let %n = @next(%x); Both(%x, %n) }
)");
}

TEST(ProgramBuilder, BorrowsTheBytesOfConstants) {
  auto weights = std::make_shared<const std::vector<float>>(1000, 1.5f);
  Literal literal(kFloat32, {1000}, Buffer::Borrow(weights->data(), 4000, weights));
  ProgramBuilder b;
  b.Define("main", {}, nullptr, [&](Values) { return b.Op("nn.relu", {literal}); });
  absl::StatusOr<ir::Module> module = std::move(b).Finish();
  ASSERT_TRUE(module.ok()) << module.status();
  const auto* call = ir::DynCast<ir::Call>(module->functions[0].function->body);
  const auto* constant = ir::DynCast<ir::Constant>(call->args[0]);
  EXPECT_EQ(static_cast<const void*>(constant->literal.data()), weights->data());
}

}  // namespace
}  // namespace rvm::builder
