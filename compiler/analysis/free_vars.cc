#include "compiler/analysis/free_vars.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/walk.h"

namespace rvm::analysis {
namespace {

using ir::Expr;
using ir::Var;

class UseCollector {
 public:
  void Collect(const ir::Function* function) {
    ir::ForEachExpr(function, [&](const Expr* expr) {
      Visit(expr);
      return true;
    });
  }

  std::vector<Var*> TakeFree() {
    std::erase_if(uses_, [&](Var* var) { return bound_.contains(var); });
    return std::move(uses_);
  }

 private:
  void BindPattern(const ir::Pattern* pattern) {
    std::vector<const ir::Pattern*> patterns = {pattern};
    while (!patterns.empty()) {
      const ir::Pattern* next = patterns.back();
      patterns.pop_back();
      if (next->var != nullptr) bound_.insert(next->var);
      patterns.insert(patterns.end(), next->fields.begin(), next->fields.end());
    }
  }

  void Visit(const Expr* expr) {
    if (const auto* use = ir::DynCast<ir::VarExpr>(expr)) {
      if (seen_.insert(use->var).second) uses_.push_back(use->var);
    } else if (const auto* function = ir::DynCast<ir::Function>(expr)) {
      bound_.insert(function->params.begin(), function->params.end());
    } else if (const auto* let = ir::DynCast<ir::Let>(expr)) {
      bound_.insert(let->var);
    } else if (const auto* match = ir::DynCast<ir::Match>(expr)) {
      for (const ir::Clause& clause : match->clauses) BindPattern(clause.pattern);
    }
  }

  std::vector<Var*> uses_;  // in order, each once
  absl::flat_hash_set<const Var*> seen_;
  absl::flat_hash_set<const Var*> bound_;
};

}  // namespace

std::vector<Var*> FreeVars(const ir::Function* function) {
  UseCollector collector;
  collector.Collect(function);
  return collector.TakeFree();
}

}  // namespace rvm::analysis
