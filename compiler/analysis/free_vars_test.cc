#include "compiler/analysis/free_vars.h"

#include <utility>

#include "compiler/ir/module.h"
#include "gtest/gtest.h"

namespace rvm::analysis {
namespace {

class FreeVarsTest : public testing::Test {
 protected:
  ir::Var* NewVar(const char* name) { return arena_.New<ir::Var>(arena_.NextId(), name); }
  ir::Expr* Use(ir::Var* var) { return arena_.New<ir::VarExpr>(var, ir::Span{}); }
  ir::Expr* Tuple(std::vector<ir::Expr*> fields) { return arena_.New<ir::Tuple>(std::move(fields), ir::Span{}); }
  ir::Function* Function(std::vector<ir::Var*> params, ir::Expr* body) {
    return arena_.New<ir::Function>(std::vector<const ir::TypeParam*>{}, std::move(params), nullptr, body, ir::Span{});
  }
  ir::Arena arena_;
};

TEST_F(FreeVarsTest, InOrderOfFirstUse) {
  ir::Var *a = NewVar("a"), *b = NewVar("b"), *p = NewVar("p");
  EXPECT_EQ(FreeVars(Function({p}, Tuple({Use(b), Use(p), Use(a), Use(b)}))), (std::vector<ir::Var*>{b, a}));
}

TEST_F(FreeVarsTest, NestedFunctionsAndPatternsBind) {
  ir::Var *a = NewVar("a"), *inner = NewVar("inner"), *matched = NewVar("matched");
  auto* pattern = arena_.New<ir::Pattern>(ir::PatternKind::kVar, ir::Span{}, matched);
  auto* match = arena_.New<ir::Match>(Use(a), std::vector<ir::Clause>{{pattern, Use(matched), {}}}, true, ir::Span{});
  EXPECT_EQ(FreeVars(Function({}, Tuple({Function({inner}, Use(inner)), match}))), std::vector<ir::Var*>{a});
}

TEST_F(FreeVarsTest, LongLetChain) {
  ir::Var* a = NewVar("a");
  ir::Expr* body = Use(a);
  for (int i = 0; i < 200'000; ++i) body = arena_.New<ir::Let>(NewVar("x"), Tuple({}), body, ir::Span{});
  EXPECT_EQ(FreeVars(Function({}, body)), std::vector<ir::Var*>{a});
}

}  // namespace
}  // namespace rvm::analysis
