// Each rule of the checker, broken on purpose.
#include "compiler/passes/verify/verify_module.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "base/check.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pipeline.h"
#include "compiler/text/parser.h"
#include "compiler/typing/infer_type.h"
#include "gtest/gtest.h"

namespace rvm::passes {
namespace {

// A program after the unoptimised pipeline up to `until`, whose nodes a test may change.
class Broken {
 public:
  Broken(std::string source, std::string_view until) {
    uint32_t id = sources_.Add("test.relay", std::move(source));
    RVM_CHECK(text::ParseModule(id, module_, diagnostics_) && typing::InferTypes(module_, diagnostics_), "bad source");
    PipelineOptions options{.opt_level = 0};
    ir::Module seen;
    options.observer = [&](const Pass& pass, const ir::Module& after) {
      if (pass.name == until) seen = after;
    };
    RVM_CHECK(RunPasses(module_, {"main"}, diagnostics_, options).ok(), "the passes fail");
    module_ = seen;
  }

  const diagnostics::SourceMap& sources() { return sources_; }
  ir::Module& module() { return module_; }
  ir::Arena& arena() { return *module_.arena; }
  ir::GlobalFunction& main() {
    for (ir::GlobalFunction& global : module_.functions) {
      if (global.name == "main") return global;
    }
    RVM_UNREACHABLE("no main");
  }
  // Returns the `index`-th node of its kind in `@main`, parents first.
  template <typename T>
  T* Node(size_t index = 0) {
    T* result = nullptr;
    ir::ForEachExpr(main().function, [&](const ir::Expr* expr) {
      if (result == nullptr && expr->expr_kind == T::kKind && index-- == 0) result = const_cast<T*>(ir::Cast<T>(expr));
      return true;
    });
    RVM_CHECK(result != nullptr, "no such node");
    return result;
  }
  const ir::Type* Int() { return ir::MakeScalarType(arena(), kInt32); }
  const ir::Type* Float() { return ir::MakeScalarType(arena(), kFloat32); }
  ir::Expr* Typed(ir::Expr* expr, const ir::Type* type) {
    expr->type = type;
    return expr;
  }

 private:
  diagnostics::SourceMap sources_;
  diagnostics::Diagnostics diagnostics_{&sources_};
  ir::Module module_;
};

struct Rule {
  std::string_view name;
  std::string_view until;
  Forms forms;
  const char* source;
  std::function<void(Broken&)> change;
  const char* message;
};

constexpr char kScalars[] = "def @main(%x: int32) { let %a = %x + 1; let %b = %a * 2; (%a, %b).1 }";
constexpr char kOptional[] = "def @main(%x: Tensor[(2, 3), float32]) { variance(%x, axis=[1]) }";
constexpr char kTensors[] =
    "def @main(%x: Tensor[(2, 3), float32]) { let %y = tanh(%x); if (True) { %y } else { %x } }";
constexpr char kData[] =
    "type T { C(int32, bool), D } def @f(%n: int32) -> int32 { %n } "
    "def @main(%t: T) { let %r = ref(@f(1)); %r := 2; match (%t) { C(%n, %c) => if (%c) { !%r } else { %n }, D => 2 } "
    "}";
constexpr char kOpen[] = "def @main[n: ShapeVar](%x: Tensor[(n), float32]) { tanh(%x) }";
constexpr Forms kAll = Forms(Form::kANormal) | Form::kCountedResults | Form::kKernels;

const Rule kRules[] = {
    {"NoType", "specialize", {}, kScalars, [](Broken& b) { b.Node<ir::Call>()->type = nullptr; }, "without a type"},
    {"Hole",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Call>()->type = b.arena().New<ir::HoleType>(1); },
     "hole or a parameter"},
    {"ParamOfAnotherKind",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.main().function->type_params = {b.arena().New<ir::TypeParam>(b.arena().NextId(), "A")}; },
     "type parameter `A` is not a dim"},
    {"BoundTwice",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Let>(1)->var = b.Node<ir::Let>()->var; },
     "bound twice"},
    {"FreeVariable",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::VarExpr>()->var = b.Node<ir::Let>(1)->var; },
     "`%b` is not in scope"},
    {"TwoParents",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Tuple>()->fields[1] = b.Node<ir::Tuple>()->fields[0]; },
     "two parents"},
    {"TwoFunctions",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.module().functions.push_back(b.module().functions[0]); },
     "two functions of this name"},
    {"UseOfAnotherType",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::VarExpr>()->type = b.Float(); },
     "the use of a variable: saw `float32`, expected `int32`"},
    {"LetOfAnotherType",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Let>()->type = b.Float(); },
     "the type of a let"},
    {"ValueOfLet",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Let>()->var->type = b.Float(); },
     "the value of `%a`: saw `int32`, expected `float32`"},
    {"Constant",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Constant>()->type = b.Float(); },
     "the constant is a tensor of int32"},
    {"OperatorResult",
     "specialize",
     {},
     kTensors,
     [](Broken& b) { b.Node<ir::Call>()->type = ir::MakeTensorType(b.arena(), {2, 4}, kFloat32); },
     "its type rule gives `Tensor[(2, 3), float32]`"},
    {"OperatorRule",
     "specialize",
     {},
     kScalars,
     [](Broken& b) {
       b.Node<ir::Constant>()->literal = Literal::Scalar(kFloat32, 1);
       b.Node<ir::Constant>()->type = b.Float();
     },
     "the type rule of the operator does not hold"},
    {"OperatorArguments",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Call>()->args.pop_back(); },
     "a call with 1 arguments, expected 2"},
    {"OptionalOperatorArguments",
     "specialize",
     {},
     kOptional,
     [](Broken& b) { b.Node<ir::Call>()->args.clear(); },
     "a call with 0 arguments, expected 1 to 2"},
    {"TupleFields",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Tuple>()->fields.pop_back(); },
     "a tuple of 1 fields"},
    {"ProjectionIndex",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Project>()->index = 2; },
     "field 2 of what has no such field"},
    {"ProjectionType",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.Node<ir::Project>()->type = b.Float(); },
     "a field: saw `float32`"},
    {"OperatorAsValue",
     "specialize",
     {},
     kScalars,
     [](Broken& b) {
       b.Node<ir::Tuple>()->fields[0] =
           b.Typed(b.arena().New<ir::OpExpr>(ops::FindOp("add"), ir::Span{}), b.Node<ir::Call>()->type);
     },
     "that is not called"},
    {"Condition",
     "specialize",
     {},
     kTensors,
     [](Broken& b) {
       auto* condition = ir::Cast<ir::Constant>(b.Node<ir::If>()->condition);
       condition->literal = Literal::ScalarInt(kInt32, 1);
       condition->type = b.Int();
     },
     "the condition: saw `int32`"},
    {"Branch",
     "specialize",
     {},
     kTensors,
     [](Broken& b) {
       auto* constant = b.arena().New<ir::Constant>(Literal::ScalarInt(kInt32, 1), ir::Span{});
       b.Node<ir::If>()->else_branch = b.Typed(constant, b.Int());
     },
     "a branch: saw `int32`"},
    {"FunctionType",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.main().function->type = b.Int(); },
     "whose type is not that of a function"},
    {"FunctionResult",
     "specialize",
     {},
     kScalars,
     [](Broken& b) {
       auto* type = const_cast<ir::FuncType*>(ir::DynCast<ir::FuncType>(b.main().function->type));
       type->result = b.Float();
     },
     "the result of a function: saw `int32`, expected `float32`"},
    {"ReturnsFields",
     "specialize",
     {},
     kScalars,
     [](Broken& b) { b.main().returns_fields = true; },
     "its result is no tuple"},
    {"UnknownFunction",
     "specialize",
     {},
     kData,
     [](Broken& b) { b.Node<ir::GlobalExpr>()->name = "g"; },
     "there is no function `@g`"},
    {"Signature",
     "specialize",
     {},
     kData,
     [](Broken& b) {
       b.Node<ir::GlobalExpr>()->type = b.arena().New<ir::FuncType>(std::vector<const ir::TypeParam*>{},
                                                                    std::vector<const ir::Type*>{b.Float()}, b.Int());
     },
     "the signature of `@f`"},
    {"Argument",
     "specialize",
     {},
     kData,
     [](Broken& b) {
       b.Node<ir::Constant>()->literal = Literal::Scalar(kFloat32, 1);
       b.Node<ir::Constant>()->type = b.Float();
     },
     "argument 1: saw `float32`, expected `int32`"},
    {"CallArguments",
     "specialize",
     {},
     kData,
     [](Broken& b) { b.Node<ir::Call>()->args.clear(); },
     "a call with 0 arguments, expected 1"},
    {"PatternOfAnotherType",
     "specialize",
     {},
     kData,
     [](Broken& b) {
       auto* match = b.Node<ir::Match>();
       match->value = b.Typed(b.arena().New<ir::Tuple>(std::vector<ir::Expr*>{}, ir::Span{}), ir::UnitType(b.arena()));
     },
     "where another type is"},
    {"PatternFields",
     "specialize",
     {},
     kData,
     [](Broken& b) { b.Node<ir::Match>()->clauses[0].pattern->fields.pop_back(); },
     "a pattern has 1 fields, expected 2"},
    {"PatternVariable",
     "specialize",
     {},
     kData,
     [](Broken& b) { b.Node<ir::Match>()->clauses[0].pattern->fields[0]->var->type = b.Float(); },
     "the variable `%n` of a pattern"},
    {"Contents",
     "specialize",
     {},
     kData,
     [](Broken& b) {
       auto* value = ir::Cast<ir::Constant>(b.Node<ir::RefWrite>()->value);
       value->literal = Literal::Scalar(kFloat32, 1);
       value->type = b.Float();
     },
     "the contents of a reference: saw `float32`"},
    {"ReadOfNoReference",
     "specialize",
     {},
     kData,
     [](Broken& b) { b.Node<ir::RefRead>()->ref = b.Node<ir::If>()->else_branch; },
     "a read of what is no reference"},
    {"ANormalOperand", "to_anf", Form::kANormal, kScalars,
     [](Broken& b) {
       ir::Let* first = b.Node<ir::Let>();
       ir::Let* second = b.Node<ir::Let>(1);
       ir::Cast<ir::Call>(second->value)->args[0] = first->value;
       b.main().function->body = second;
       ir::Cast<ir::Call>(second->value);
       second->body = b.Typed(b.arena().New<ir::VarExpr>(second->var, ir::Span{}), second->var->type);
       second->type = second->body->type;
     },
     "an operand that is neither a variable nor a constant"},
    {"ANormalLet", "specialize", Form::kANormal, "def @main(%x: int32) { let %a = (let %b = %x + 1; %b * 2); %a + 1 }",
     [](Broken&) {}, "a let as the value of a let"},
    {"TupleArgument", "specialize", Form::kANormal,
     "def @main(%p: (Tensor[(2), float32], Tensor[(2), float32])) { concatenate(%p) }", [](Broken&) {},
     "no tuple written in place"},
    {"CalledLiteral", "specialize", Form::kANormal, "def @main(%x: int32) { (fn (%y: int32) { %y })(%x) }",
     [](Broken&) {}, "a function literal that is called"},
    {"NotCounted", "to_anf", Forms(Form::kANormal) | Form::kCountedResults,
     "def @main(%x: Tensor[(4), bool]) { argwhere(%x) }", [](Broken&) {}, "is not counted first"},
    {"NoKernel", "to_anf", kAll, kTensors, [](Broken&) {}, "an operator that needs a kernel and is in none"},
    {"KernelTooEarly", "fuse_ops", Form::kANormal, kTensors, [](Broken&) {}, "a kernel before fusion"},
    {"KernelCaptures", "fuse_ops", kAll, kTensors,
     [](Broken& b) {
       auto* kernel = b.Node<ir::Function>(1);
       ir::Expr* use = nullptr;
       ir::ForEachExpr(kernel->body, [&](const ir::Expr* expr) {
         if (expr->expr_kind == ir::ExprKind::kVar && use == nullptr) use = const_cast<ir::Expr*>(expr);
         return true;
       });
       ir::Cast<ir::VarExpr>(use)->var = b.main().function->params[0];
     },
     "a kernel that captures `%x`"},
};

class VerifyModuleTest : public testing::TestWithParam<Rule> {};

TEST_P(VerifyModuleTest, FindsWhatIsBroken) {
  const Rule& rule = GetParam();
  Broken program(rule.source, rule.until);
  rule.change(program);
  std::string all;
  for (const Finding& finding : VerifyModule(program.module(), rule.forms)) {
    all += FindingToString(finding, program.sources()) + "\n";
  }
  EXPECT_TRUE(absl::StrContains(all, rule.message)) << all;
}

INSTANTIATE_TEST_SUITE_P(Rules, VerifyModuleTest, testing::ValuesIn(kRules),
                         [](const testing::TestParamInfo<Rule>& info) { return std::string(info.param.name); });

TEST(VerifyModuleTest, SoundProgramsHaveNoFindings) {
  for (const char* source : {kScalars, kOptional, kTensors, kData, kOpen}) {
    EXPECT_TRUE(VerifyModule(Broken(source, "specialize").module(), {}).empty()) << source;
    EXPECT_TRUE(VerifyModule(Broken(source, "fuse_ops").module(), kAll).empty()) << source;
  }
}

constexpr char kEffects[] =
    "def @main(%r: ref(int32), %x: int32) { let %a = !%r; %r := %x; let %b = !%r; match? (%x, %a) { (%p, %q) => %p + "
    "%b "
    "} }";

TEST(VerifyEffectOrderTest, EffectsMayGoButNotMove) {
  Broken before(kEffects, "specialize");
  EXPECT_TRUE(VerifyEffectOrder(before.module(), before.module()).empty());
  ir::Module dropped = before.module();
  ir::GlobalFunction& main = dropped.functions[0];
  auto* function = before.arena().New<ir::Function>(*main.function);
  function->body = ir::Cast<ir::Let>(function->body)->body;  // without the first read
  main.function = function;
  EXPECT_TRUE(VerifyEffectOrder(before.module(), dropped).empty());
  std::vector<Finding> added = VerifyEffectOrder(dropped, before.module());
  ASSERT_EQ(added.size(), 1u);
  EXPECT_EQ(added[0].node->expr_kind, ir::ExprKind::kRefRead);
}

TEST(VerifyEffectOrderTest, ReadsDoNotPassWrites) {
  Broken before(kEffects, "to_anf"), after(kEffects, "to_anf");
  // The first read changes places with the write.
  std::swap(after.Node<ir::Let>(0)->value, after.Node<ir::Let>(1)->value);
  std::vector<Finding> findings = VerifyEffectOrder(before.module(), after.module());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].function, "main");
}

TEST(PipelineTest, AMalformedProgramNamesThePassAndSaysWhoseBugItIs) {
  Broken program(kScalars, "specialize");
  std::vector<Finding> findings;
  program.Node<ir::Project>()->index = 7;
  findings = VerifyModule(program.module(), {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].function, "main");
  EXPECT_EQ(findings[0].node, program.Node<ir::Project>());
}

}  // namespace
}  // namespace rvm::passes
