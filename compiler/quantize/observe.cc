#include "compiler/quantize/observe.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/ops/build_call.h"
#include "compiler/passes/rewriter.h"

namespace rvm::quantize {
namespace {

using ir::DynCast;
using ir::Expr;

class Observer : public passes::Rewriter {
 public:
  Observer(ir::Arena& arena, const std::vector<Site>& sites)
      : Rewriter(arena),
        flat_(ir::MakeTensorType(arena, {Dim::Any()}, kFloat32)),
        type_(ir::MakeFuncType(arena, {ir::MakeScalarType(arena, kInt32), flat_}, ir::UnitType(arena))) {
    for (size_t i = 0; i < sites.size(); ++i) {
      if (sites[i].kind != SiteKind::kTable) index_of_[sites[i].call] = i;
    }
  }

  ir::Function* Observed(const ir::GlobalFunction& global) {
    auto* function = arena_.New<ir::Function>(*global.function);
    observe_ = At(global.span).DeclaredVar("observe", type_);
    function->params.push_back(observe_);
    function->type = WithObserver(passes::TypeOf(*global.function));
    function->body = Rewrite(global.function->body);
    return function;
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const auto* call = DynCast<ir::Call>(expr);
    if (call == nullptr) return RewriteChildren(expr);
    if (const ir::GlobalExpr* callee = ir::GlobalCallee(call)) {
      auto* function = arena_.New<ir::GlobalExpr>(*callee);
      if (const auto* type = DynCast<ir::FuncType>(callee->type)) function->type = WithObserver(*type);
      std::vector<Expr*> args = RewriteAll(call->args);
      args.push_back(At(expr->span).Use(observe_));
      return At(expr->span).Call(function, std::move(args), call->attrs, expr->type);
    }
    auto site = index_of_.find(call);
    return site == index_of_.end() ? RewriteChildren(expr) : Shown(*call, site->second);
  }

 private:
  const ir::FuncType* WithObserver(const ir::FuncType& type) {
    std::vector<const ir::Type*> params = type.params;
    params.push_back(type_);
    return arena_.New<ir::FuncType>(type.type_params, std::move(params), type.result, type.constraints);
  }

  // `let %flat = reshape(data); let %shown = observe(index, %flat); call`.
  Expr* Shown(const ir::Call& call, size_t index) {
    const ir::Builder at = At(call.span);
    std::vector<ir::Binding> chain;
    Expr* data = Rewrite(call.args[0]);
    Expr* reshaped = ops::BuildCall(at, "reshape", {data}, {{"newshape", ir::AttrValue::List{-1}}});
    ir::Var* flat = at.Var("flat", flat_);
    chain.push_back({flat, reshaped, call.span});
    Expr* number = at.Constant(Literal::ScalarInt(kInt32, static_cast<int64_t>(index)));
    at.Bind("shown", at.Call(at.Use(observe_), {number, at.Use(flat)}), chain);
    return ir::MakeLets(arena_, chain, RewriteChildren(const_cast<ir::Call*>(&call)));
  }

  const ir::TensorType* flat_;
  const ir::FuncType* type_;
  ir::Var* observe_ = nullptr;
  absl::flat_hash_map<const ir::Call*, size_t> index_of_;
};

}  // namespace

ir::Module Observe(const ir::Module& module, const std::vector<Site>& sites) {
  ir::Module result = module;
  Observer observer(*module.arena, sites);
  for (ir::GlobalFunction& global : result.functions) global.function = observer.Observed(global);
  return result;
}

}  // namespace rvm::quantize
