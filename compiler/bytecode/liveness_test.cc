#include "compiler/bytecode/liveness.h"

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "compiler/ir/walk.h"
#include "compiler/passes/pipeline.h"
#include "compiler/text/parser.h"
#include "compiler/typing/infer_type.h"
#include "gtest/gtest.h"

namespace rvm::bytecode {
namespace {

// The body of `@main` in A-normal form, unoptimised, and its variables by name.
struct Body {
  explicit Body(std::string source) {
    uint32_t id = sources.Add("test.relay", std::move(source));
    RVM_CHECK(text::ParseModule(id, module, diagnostics) && typing::InferTypes(module, diagnostics), "a bad program");
    absl::StatusOr<ir::Module> passed = passes::RunPasses(module, {"main"}, diagnostics, {.opt_level = 0});
    RVM_CHECK(passed.ok(), "the passes fail");
    function = passed->FindFunction("main")->function;
    for (const ir::Var* param : function->params) vars[param->name] = param;
    ir::ForEachExpr(function->body, [&](const ir::Expr* expr) {
      if (const auto* let = ir::DynCast<ir::Let>(expr)) vars[let->var->name] = let->var;
      if (const auto* literal = ir::DynCast<ir::Function>(expr)) literals.push_back(literal);
      return true;
    });
    module = *passed;
  }

  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics{&sources};
  ir::Module module;
  const ir::Function* function;
  absl::flat_hash_map<std::string, const ir::Var*> vars;
  std::vector<const ir::Function*> literals;
};

TEST(LivenessTest, StepsAreNumberedInOrder) {
  // 0: %a  1: %b  2: the tail
  Body body("def @main(%x: int32) { let %a = %x + 1; let %b = %a * %x; %a - %b }");
  Liveness liveness(body.function->body, false);
  EXPECT_EQ(liveness.block_end(0), 3u);
  EXPECT_EQ(liveness.LastUse(body.vars["x"], 0, 3), 1u);
  EXPECT_EQ(liveness.LastUse(body.vars["a"], 0, 3), 2u);
  EXPECT_EQ(liveness.LastUse(body.vars["a"], 0, 2), 1u);
  EXPECT_EQ(liveness.LastUse(body.vars["b"], 0, 2), std::nullopt);
  EXPECT_EQ(liveness.num_uses(body.vars["a"]), 2u);
  EXPECT_EQ(liveness.NumUses(body.vars["a"], 2, 3), 1u);
}

TEST(LivenessTest, OneUsePerStep) {
  Body body("def @main(%x: int32) { %x * %x }");
  EXPECT_EQ(Liveness(body.function->body, false).num_uses(body.vars["x"]), 1u);
}

TEST(LivenessTest, BranchesAreBlocksWithinTheirStep) {
  // 0: the if, 1: then, 2-3: else
  Body body("def @main(%c: bool, %x: int32) { if (%c) { %x } else { let %y = %x + 1; %y * %x } }");
  Liveness liveness(body.function->body, false);
  EXPECT_EQ(liveness.step_end(0), 4u);
  EXPECT_EQ(liveness.blocks_after(0), 3u);
  EXPECT_EQ(liveness.block_end(1), 2u);
  EXPECT_EQ(liveness.block_end(2), 4u);
  EXPECT_EQ(liveness.LastUse(body.vars["c"], 0, 4), 0u);
  EXPECT_EQ(liveness.LastUse(body.vars["x"], 1, 2), 1u);
  EXPECT_EQ(liveness.LastUse(body.vars["x"], 2, 4), 3u);
}

TEST(LivenessTest, ClausesOfAMatch) {
  Body body("type T { C(int32), D } def @main(%t: T) { match (%t) { C(%n) => %n + 1, D => 2 } }");
  Liveness liveness(body.function->body, false);
  ASSERT_EQ(liveness.clause_starts(0).size(), 2u);
  EXPECT_EQ(liveness.clause_starts(0)[0].position, 1u);
  EXPECT_EQ(liveness.clause_starts(0)[1].position, 2u);
  EXPECT_EQ(liveness.clause_starts(0)[1].block, 2u);
}

TEST(LivenessTest, ClosuresCaptureInOrderOfFirstUse) {
  Body body(
      "def @main(%a: int32, %b: int32) { let %f = fn (%n: int32) -> int32 { if (%n < %b) { %f(%n + %a) } else { %n } "
      "}; (%f, %b) }");
  Liveness liveness(body.function->body, false);
  ASSERT_EQ(body.literals.size(), 1u);
  const std::vector<ir::Var*>& captures = liveness.captures(body.literals[0]);
  ASSERT_EQ(captures.size(), 2u);
  EXPECT_EQ(captures[0], body.vars["b"]);
  EXPECT_EQ(captures[1], body.vars["a"]);
  EXPECT_EQ(liveness.CellsMade(2, 0, liveness.block_end(0)).size(), 2u);  // the closure and the tuple
  EXPECT_TRUE(liveness.Escapes(body.vars["a"]));
}

TEST(LivenessTest, TuplesReturnedByFieldAreNoCells) {
  Body body("def @main(%a: int32) { (%a, %a) }");
  EXPECT_EQ(Liveness(body.function->body, false).CellsMade(2, 0, 1).size(), 1u);
  EXPECT_TRUE(Liveness(body.function->body, true).CellsMade(2, 0, 1).empty());
}

TEST(LivenessTest, ProjectionsOfABlock) {
  Body body("def @main(%p: (int32, int32)) { let %a = %p.1; let %b = %p.0; %a - %b }");
  Liveness liveness(body.function->body, false);
  std::span<const Liveness::Projection> projections = liveness.Projections(body.vars["p"], 0, 0, liveness.block_end(0));
  ASSERT_EQ(projections.size(), 2u);
  EXPECT_EQ(projections[0].index, 1);
  EXPECT_EQ(projections[0].var, body.vars["a"]);
  EXPECT_EQ(projections[1].position, 1u);
  EXPECT_EQ(liveness.Projections(body.vars["p"], 0, 1, liveness.block_end(0)).size(), 1u);
}

// The only clause of a match runs whenever the block around it does, a branch does not.
TEST(LivenessTest, ProjectionsBehindPatterns) {
  Body body(
      "def @main(%p: (int32, int32), %q: (int32, int32)) {\n"
      "  let %a = %p.1; let (%x, %y) = %q; let %b = %p.0; if (%x < %y) { %a - %b } else { let %c = %p.0; %c } }");
  Liveness liveness(body.function->body, false);
  EXPECT_EQ(liveness.Projections(body.vars["p"], 0, 0, liveness.block_end(0)).size(), 2u);
  EXPECT_EQ(liveness.NumUses(body.vars["p"], 0, liveness.block_end(0)), 3u);
}

TEST(LivenessTest, ArgumentsOfKernelsDoNotEscape) {
  Body body("def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32]) { let %z = %x + %y; (%z, %y) }");
  Liveness liveness(body.function->body, false);
  EXPECT_FALSE(liveness.Escapes(body.vars["x"]));
  EXPECT_TRUE(liveness.Escapes(body.vars["y"]));
}

}  // namespace
}  // namespace rvm::bytecode
