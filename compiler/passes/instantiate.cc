#include "compiler/passes/instantiate.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/match_types.h"
#include "compiler/ir/walk.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

// Solves for the shape variables of `function`.
bool SolveDims(const ir::Function& function, const std::vector<const ir::Type*>& args,
               ir::TypeSubstitution& substitution) {
  absl::flat_hash_map<const ir::TypeParam*, ir::TypeArg> found;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!ir::MatchTypes(function.params[i]->type, args[i], function.type_params, found)) return false;
  }
  for (const ir::TypeParam* param : function.type_params) {
    auto arg = found.find(param);
    if (arg == found.end() || ContainsAny(arg->second.dim)) return false;
    substitution.Add(param, arg->second);
  }
  return true;
}

void MoveToCaller(const ir::Function& function, const ir::Expr* body, ir::Span call) {
  if (!call.valid() || function.span.source == call.source) return;
  ir::ForEachExpr(body, [&](const ir::Expr* expr) {
    if (expr->span.source == function.span.source) const_cast<ir::Expr*>(expr)->span = call;
    return true;
  });
}

}  // namespace

const ir::Function* Instantiate(ir::Arena& arena, const ir::Function& function,
                                const std::vector<const ir::Type*>& args, bool is_only_use, ir::Span call) {
  ir::TypeSubstitution substitution;
  if (!function.type_params.empty() && !SolveDims(function, args, substitution)) return nullptr;
  const ir::Function* own = &function;
  if (!is_only_use || !substitution.empty()) own = Copier(arena, std::move(substitution)).Copy(function);
  MoveToCaller(function, own->body, call);
  return own;
}

}  // namespace rvm::passes
