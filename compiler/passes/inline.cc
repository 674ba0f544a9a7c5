// Inlines small functions, functions that are called once, and function literals that are called in place.
//
// Takes a specialised module. Replaces calls by lets of the parameters and the body of the callee, for: small
// non-recursive global functions, larger ones with a single call, function literals that are called in place, and
// let-bound function literals whose only use is one call. A call whose arguments do not prove the extents of the
// parameters is kept, because the callee checks them on entry. Removes functions that become unreachable.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/instantiate.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

// In nodes. A call, its arguments and the frame cost about as much as a small body.
constexpr size_t kSmallBody = 40;
constexpr size_t kOnlyCallBody = 2000;
// Each round may show new literals that are called once.
constexpr int kMaxLocalRounds = 4;

// `let params = args; body`, or null. Consumes `function` where it has no shape variables and
// `is_only_use`, else copies it.
Expr* Expand(ir::Arena& arena, const ir::Function& function, const std::vector<Expr*>& args, bool is_only_use,
             ir::Span span) {
  const ir::Function* own = Instantiate(arena, function, ir::TypesOf(args), is_only_use, span);
  if (own == nullptr) return nullptr;
  std::vector<Binding> chain;
  for (size_t i = 0; i < args.size(); ++i) chain.push_back({own->params[i], args[i], span});
  const ir::Type* result = TypeOf(*own).result;
  Expr* body = own->body;
  if (!ir::TypesEqual(body->type, result)) {
    const ir::Builder at(arena, span);
    ir::Var* var = at.DeclaredVar("r", result);
    chain.push_back({var, body, span});
    body = at.Use(var);
  }
  return MakeLets(arena, chain, body);
}

class GlobalInliner : public Rewriter {
 public:
  // `is_moved[i]`: the one use of function i, which is not recursive and no entry, takes its body without a copy.
  GlobalInliner(ir::Arena& arena, const CallGraph& graph, const std::vector<ir::GlobalFunction>& functions,
                const std::vector<bool>& is_moved)
      : Rewriter(arena), graph_(graph), functions_(functions), is_moved_(is_moved) {}

 protected:
  Expr* RewriteNode(Expr* expr) override {
    expr = RewriteChildren(expr);
    const ir::GlobalExpr* global = ir::GlobalCallee(expr);
    const size_t* index = global == nullptr ? nullptr : graph_.Find(global->name);
    if (index == nullptr || graph_.is_recursive(*index)) return expr;
    const ir::Function& callee = *functions_[*index].function;
    bool is_moved = is_moved_[*index];
    size_t limit = graph_.num_calls(*index) == 1 ? kOnlyCallBody : kSmallBody;
    if (!is_moved && CountNodes(callee.body, limit) > limit) return expr;
    Expr* expanded = Expand(arena_, callee, Cast<ir::Call>(expr)->args, is_moved, expr->span);
    return expanded != nullptr ? expanded : expr;
  }

 private:
  const CallGraph& graph_;
  const std::vector<ir::GlobalFunction>& functions_;
  const std::vector<bool>& is_moved_;
};

class LocalInliner : public Rewriter {
 public:
  LocalInliner(ir::Arena& arena, const Expr* body) : Rewriter(arena) { CountUses(body, uses_); }
  bool changed() const { return changed_; }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Expr* value = Rewrite(let.value);
    bool is_same_type = ir::TypesEqual(value->type, let.var->type);
    if (is_same_type && value->expr_kind == ExprKind::kVar) {
      renamed_[let.var] = Cast<ir::VarExpr>(value)->var;
      changed_ = true;
      return;
    }
    auto* function = DynCast<ir::Function>(value);
    bool is_called_once = function != nullptr && uses_[let.var].all == 1 && uses_[let.var].calls == 1;
    // If the one call has been seen already, it is in the function's own body.
    if (is_same_type && is_called_once && !seen_.contains(let.var)) {
      called_once_[let.var] = function;
    }
    chain.push_back({let.var, value, let.span});
  }

  Expr* FinishLets(const std::vector<Binding>& chain, Expr* body) override {
    std::vector<Binding> kept;
    for (const Binding& binding : chain) {
      if (!expanded_.contains(binding.var)) kept.push_back(binding);
    }
    return MakeLets(arena_, kept, body);
  }

  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = renamed_.find(use->var);
      if (found != renamed_.end()) return At(expr->span).Use(found->second);
      seen_.insert(use->var);
      return RewriteChildren(expr);
    }
    expr = RewriteChildren(expr);
    const auto* call = DynCast<ir::Call>(expr);
    if (call == nullptr || ir::IsPrimitive(call->callee)) return expr;
    const ir::Var* var = nullptr;
    const auto* function = DynCast<ir::Function>(call->callee);
    if (const auto* use = DynCast<ir::VarExpr>(call->callee)) {
      auto found = called_once_.find(use->var);
      if (found != called_once_.end()) {
        var = use->var;
        function = found->second;
      }
    }
    Expr* expanded = function == nullptr ? nullptr : Expand(arena_, *function, call->args, true, call->span);
    if (expanded == nullptr) return expr;
    changed_ = true;
    if (var != nullptr) expanded_.insert(var);
    return expanded;
  }

 private:
  UseCounts uses_;
  absl::flat_hash_set<const ir::Var*> seen_;
  absl::flat_hash_map<const ir::Var*, ir::Var*> renamed_;
  absl::flat_hash_map<const ir::Var*, const ir::Function*> called_once_;
  absl::flat_hash_set<const ir::Var*> expanded_;  // whose let is gone
  bool changed_ = false;
};

Expr* InlineLocals(ir::Arena& arena, Expr* body) {
  for (int round = 0; round < kMaxLocalRounds; ++round) {
    LocalInliner inliner(arena, body);
    body = inliner.Rewrite(body);
    if (!inliner.changed()) break;
  }
  return body;
}

absl::StatusOr<ir::Module> Inline(const ir::Module& module, PassContext& context) {
  CallGraph graph(module);
  std::vector<ir::GlobalFunction> functions = module.functions;
  std::vector<bool> is_moved(functions.size(), false);
  absl::flat_hash_set<std::string> entries(context.entries.begin(), context.entries.end());
  absl::flat_hash_set<const ir::Function*> unfinished;
  for (size_t index : graph.callees_first()) {
    auto* function = module.arena->New<ir::Function>(*functions[index].function);
    function->body = GlobalInliner(*module.arena, graph, functions, is_moved).Rewrite(function->body);
    // Local functions of a body that moves are inlined once, in its final place: doing it at each move is quadratic.
    is_moved[index] = graph.num_calls(index) == 1 && !graph.is_recursive(index) &&
                      !entries.contains(functions[index].name) &&
                      CountNodes(function->body, kOnlyCallBody) <= kOnlyCallBody;
    if (is_moved[index]) {
      unfinished.insert(function);
    } else {
      function->body = InlineLocals(*module.arena, function->body);
    }
    functions[index].function = function;
  }
  ir::Module result = DropUnreachable(WithFunctions(module, std::move(functions)), context.entries);
  // Functions that were to move but whose call was kept.
  for (ir::GlobalFunction& global : result.functions) {
    if (unfinished.contains(global.function))
      global.function->body = InlineLocals(*module.arena, global.function->body);
  }
  return result;
}

}  // namespace

const Pass kInline = {.name = "inline", .summary = "function bodies in place of calls", .run = Inline};

}  // namespace rvm::passes
