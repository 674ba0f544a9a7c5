#include "compiler/typing/call_graph.h"

#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace rvm::typing {
namespace {

using ir::Expr;
using ir::ExprKind;

// Children of `expr`, in no particular order.
void AppendChildren(const Expr* expr, std::vector<const Expr*>& out) {
  switch (expr->expr_kind) {
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor: return;
    case ExprKind::kTuple: {
      const auto& fields = ir::Cast<ir::Tuple>(expr)->fields;
      out.insert(out.end(), fields.begin(), fields.end());
      return;
    }
    case ExprKind::kProject: return out.push_back(ir::Cast<ir::Project>(expr)->tuple);
    case ExprKind::kFunction: return out.push_back(ir::Cast<ir::Function>(expr)->body);
    case ExprKind::kCall: {
      const auto* call = ir::Cast<ir::Call>(expr);
      out.push_back(call->callee);
      out.insert(out.end(), call->args.begin(), call->args.end());
      return;
    }
    case ExprKind::kLet:
      out.push_back(ir::Cast<ir::Let>(expr)->value);
      return out.push_back(ir::Cast<ir::Let>(expr)->body);
    case ExprKind::kIf:
      out.push_back(ir::Cast<ir::If>(expr)->condition);
      out.push_back(ir::Cast<ir::If>(expr)->then_branch);
      return out.push_back(ir::Cast<ir::If>(expr)->else_branch);
    case ExprKind::kMatch:
      out.push_back(ir::Cast<ir::Match>(expr)->value);
      for (const ir::Clause& clause : ir::Cast<ir::Match>(expr)->clauses) out.push_back(clause.body);
      return;
    case ExprKind::kRefCreate: return out.push_back(ir::Cast<ir::RefCreate>(expr)->value);
    case ExprKind::kRefRead: return out.push_back(ir::Cast<ir::RefRead>(expr)->ref);
    case ExprKind::kRefWrite:
      out.push_back(ir::Cast<ir::RefWrite>(expr)->ref);
      return out.push_back(ir::Cast<ir::RefWrite>(expr)->value);
  }
}

}  // namespace

std::vector<size_t> CalleesFirst(const ir::Module& module) {
  absl::flat_hash_map<std::string_view, size_t> index;
  for (size_t i = 0; i < module.functions.size(); ++i) index.emplace(module.functions[i].name, i);
  std::vector<std::vector<size_t>> callees(module.functions.size());
  std::vector<const Expr*> pending;
  for (size_t i = 0; i < module.functions.size(); ++i) {
    pending.push_back(module.functions[i].function->body);
    while (!pending.empty()) {
      const Expr* expr = pending.back();
      pending.pop_back();
      AppendChildren(expr, pending);
      const auto* global = ir::DynCast<ir::GlobalExpr>(expr);
      auto found = global == nullptr ? index.end() : index.find(global->name);
      if (found != index.end()) callees[i].push_back(found->second);
    }
  }
  // Depth first, a function behind its callees; a call back into the path is left out, so the
  // order within a cycle depends on where it was entered.
  std::vector<size_t> order;
  std::vector<bool> seen(module.functions.size());
  std::vector<std::pair<size_t, size_t>> path;  // a function and how many callees were visited
  for (size_t root = 0; root < module.functions.size(); ++root) {
    if (!seen[root]) path.emplace_back(root, 0);
    seen[root] = true;
    while (!path.empty()) {
      auto& [function, next] = path.back();
      if (next == callees[function].size()) {
        order.push_back(function);
        path.pop_back();
        continue;
      }
      size_t callee = callees[function][next++];
      if (seen[callee]) continue;
      seen[callee] = true;
      path.emplace_back(callee, 0);
    }
  }
  return order;
}

}  // namespace rvm::typing
