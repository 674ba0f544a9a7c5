// Passes tuples to functions, and returns them, field by field: the worker/wrapper transformation.
//
// Takes a specialised module. A parameter that is only taken apart, a tuple or a value of a type with one constructor,
// becomes one parameter per field. A small tuple that is made only to be taken apart by callers is returned as its
// fields (GlobalFunction::returns_fields), which are named after each call that is not a tail call (unbox_plan.h says
// when). The state of a loop then lives in registers, and an iteration allocates no tuple. An entry that the program
// also calls becomes a wrapper, which keeps the signature and calls a worker with the body; messages show both by the
// entry's name.
//
// One level of nested products is unboxed at a time: fold_constant takes the fields out of the products that now stand
// for the parameters, and the pass runs again (pipeline.def).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"
#include "compiler/passes/tuples/products.h"
#include "compiler/passes/tuples/tails.h"
#include "compiler/passes/tuples/unbox_plan.h"
#include "compiler/passes/workers.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

class Unboxer : public Rewriter {
 public:
  Unboxer(ir::Arena& arena, const UnboxPlan& plan, const Workers& workers)
      : Rewriter(arena), plan_(plan), workers_(workers) {}

  // Returns the function with the signature that the plan gives it.
  ir::Function* Worker(const ir::GlobalFunction& global) {
    auto* function = arena_.New<ir::Function>(*global.function);
    function->params.clear();
    for (size_t i = 0; i < global.function->params.size(); ++i) {
      ir::Var* param = global.function->params[i];
      if (!plan_.IsUnboxed(global.name, i)) {
        function->params.push_back(param);
        continue;
      }
      std::vector<ir::Var*>& fields = fields_[param];
      std::optional<Product> product = ProductOf(arena_, param->type);
      for (const ir::Type* type : product->fields) {
        fields.push_back(At(param->span).DeclaredVar(absl::StrCat(param->name, "_", fields.size()), type));
      }
      function->params.insert(function->params.end(), fields.begin(), fields.end());
    }
    function->type = UnboxedType(TypeOf(*global.function), global.name);
    if (plan_.ReturnsFields(global.name)) {
      ForEachTail(global.function->body, [&](const Expr* tail) { tails_.insert(tail); });
    }
    function->body = Rewrite(function->body);
    return function;
  }

  // Returns a function with the old signature that calls it.
  ir::Function* Wrapper(const ir::GlobalFunction& global) {
    ir::Function* function = MakeCaller(global);
    function->body = Rewrite(function->body);
    return function;
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = fields_.find(use->var);
      return found == fields_.end() ? RewriteChildren(expr) : Written(found->second, expr);
    }
    const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
    if (callee == nullptr || !plan_.ChangesSignature(callee->name)) return RewriteChildren(expr);
    const auto* call = Cast<ir::Call>(expr);
    std::vector<Binding> chain;
    std::vector<Opening> openings;
    std::vector<Expr*> args = UnboxArgs(*callee, RewriteAll(call->args), chain, openings);
    auto worker = workers_.find(callee->name);
    Expr* target = At(callee->span)
                       .Global(worker == workers_.end() ? callee->name : worker->second,
                               UnboxedType(*DynCast<ir::FuncType>(callee->type), callee->name));
    Expr* result = Open(openings, At(call->span).Call(target, std::move(args), call->attrs, call->type));
    if (plan_.ReturnsFields(callee->name) && !tails_.contains(expr)) {
      result = Name(result, chain);
      std::vector<ir::Var*> fields;
      for (Expr* field : Fields(Cast<ir::VarExpr>(result)->var, expr->span)) {
        fields.push_back(Cast<ir::VarExpr>(Name(field, chain))->var);
      }
      result = Written(fields, expr);
    }
    return FinishLets(chain, result);
  }

  // A let of a value that stands behind an opening goes into the opening, where it is a let of the call itself, whose
  // results may be fields.
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Rewriter::RewriteLet(let, chain);
    Binding bound = chain.back();
    chain.pop_back();
    while (true) {
      if (const auto* inner = DynCast<ir::Let>(bound.value)) {
        chain.push_back({inner->var, inner->value, inner->span});
        bound.value = inner->body;
      } else if (opened_.contains(bound.value)) {
        chain.push_back({nullptr, bound.value, bound.value->span});
        bound.value = Cast<ir::Match>(bound.value)->clauses[0].body;
      } else {
        break;
      }
    }
    chain.push_back(bound);
  }

  // A binding without a variable is an opening of what follows.
  Expr* FinishLets(const std::vector<Binding>& chain, Expr* body) override {
    for (auto binding = chain.rbegin(); binding != chain.rend(); ++binding) {
      const auto* match = DynCast<ir::Match>(binding->value);
      body = binding->var != nullptr ? MakeLets(arena_, {*binding}, body)
                                     : Open({{match->value, match->clauses[0].pattern}}, body);
    }
    return body;
  }

 private:
  // A value that is taken apart in front of a call: `value` is a variable, of a type with one constructor.
  struct Opening {
    Expr* value;
    ir::Pattern* pattern;
  };

  // Returns the product with these fields, of the type of `like`.
  Expr* Written(const std::vector<ir::Var*>& vars, const Expr* like) {
    const ir::Builder at = At(like->span);
    std::vector<Expr*> fields;
    for (ir::Var* var : vars) fields.push_back(at.Use(var));
    std::optional<Product> product = ProductOf(arena_, like->type);
    if (product->constructor == nullptr) return at.Tuple(std::move(fields), like->type);
    return at.Call(at.Constructor(product->constructor, DynCast<ir::AdtType>(like->type)), std::move(fields));
  }

  // `let pattern = value; body` for each of the openings.
  Expr* Open(const std::vector<Opening>& openings, Expr* body) {
    for (auto opening = openings.rbegin(); opening != openings.rend(); ++opening) {
      const ir::Builder at = At(opening->value->span);
      ir::Match* match =
          at.Match(opening->value, {{opening->pattern, body, body->span}}, /*is_complete=*/true, body->type);
      match->is_let = true;
      opened_.insert(match);
      body = match;
    }
    return body;
  }

  // `tuple.0`, `tuple.1`, ...
  std::vector<Expr*> Fields(ir::Var* tuple, ir::Span span) {
    const ir::Builder at = At(span);
    std::vector<Expr*> fields;
    for (size_t i = 0; i < DynCast<ir::TupleType>(tuple->type)->fields.size(); ++i) {
      fields.push_back(at.Project(at.Use(tuple), i));
    }
    return fields;
  }

  const ir::FuncType* UnboxedType(const ir::FuncType& type, std::string_view function) {
    std::vector<const ir::Type*> params;
    for (size_t i = 0; i < type.params.size(); ++i) {
      if (plan_.IsUnboxed(function, i)) {
        std::optional<Product> product = ProductOf(arena_, type.params[i]);
        params.insert(params.end(), product->fields.begin(), product->fields.end());
      } else {
        params.push_back(type.params[i]);
      }
    }
    return arena_.New<ir::FuncType>(type.type_params, std::move(params), type.result, type.constraints);
  }

  std::vector<Expr*> UnboxArgs(const ir::GlobalExpr& callee, const std::vector<Expr*>& args,
                               std::vector<Binding>& chain, std::vector<Opening>& openings) {
    // If a product has to be computed first, so do the arguments to its left.
    bool has_computed = false;
    for (size_t i = 0; i < args.size(); ++i) {
      bool is_known = args[i]->expr_kind == ExprKind::kVar || WrittenFields(args[i]) != nullptr;
      has_computed |= plan_.IsUnboxed(callee.name, i) && !is_known;
    }
    std::vector<Expr*> result;
    auto pass = [&](Expr* arg) { result.push_back(has_computed ? Name(arg, chain) : arg); };
    for (size_t i = 0; i < args.size(); ++i) {
      const std::vector<Expr*>* written = WrittenFields(args[i]);
      if (!plan_.IsUnboxed(callee.name, i)) {
        pass(args[i]);
      } else if (written != nullptr) {
        for (Expr* field : *written) pass(field);
      } else {
        auto* whole = Cast<ir::VarExpr>(Name(args[i], chain));
        std::optional<Product> product = ProductOf(arena_, whole->type);
        std::vector<Expr*> fields = product->constructor == nullptr ? Fields(whole->var, args[i]->span)
                                                                    : OpenedFields(*product, whole, openings);
        result.insert(result.end(), fields.begin(), fields.end());
      }
    }
    return result;
  }

  // Returns the variables that a new one of `openings` gives to the fields of `whole`.
  std::vector<Expr*> OpenedFields(const Product& product, Expr* whole, std::vector<Opening>& openings) {
    const ir::Builder at = At(whole->span);
    std::vector<Expr*> fields;
    std::vector<ir::Pattern*> patterns;
    for (const ir::Type* type : product.fields) {
      ir::Var* var = at.Var("t", type);
      patterns.push_back(at.VarPattern(var));
      fields.push_back(at.Use(var));
    }
    openings.push_back({whole, at.ConstructorPattern(product.constructor, std::move(patterns))});
    return fields;
  }

  Expr* Name(Expr* expr, std::vector<Binding>& chain) {
    if (expr->expr_kind == ExprKind::kVar || expr->expr_kind == ExprKind::kConstant) return expr;
    return At(expr->span).Bind("t", expr, chain);
  }

  const UnboxPlan& plan_;
  const Workers& workers_;
  absl::flat_hash_map<const ir::Var*, std::vector<ir::Var*>> fields_;  // of the parameters that are gone
  absl::flat_hash_set<const Expr*> tails_;                             // that return fields themselves
  absl::flat_hash_set<const Expr*> opened_;                            // matches that Open made
};

absl::StatusOr<ir::Module> UnboxTuples(const ir::Module& module, PassContext& context) {
  UnboxPlan plan(module, context.entries);
  if (plan.empty()) return module;
  Workers workers =
      NameWorkers(module, context.entries, [&](std::string_view entry) { return plan.ChangesSignature(entry); });
  std::vector<ir::GlobalFunction> functions, split;
  for (const ir::GlobalFunction& global : module.functions) {
    ir::GlobalFunction changed = global;
    changed.function = Unboxer(*module.arena, plan, workers).Worker(global);
    changed.returns_fields |= plan.ReturnsFields(global.name);
    if (auto worker = workers.find(global.name); worker != workers.end()) {
      changed.name = worker->second;
      changed.shown_as = global.name;
      split.push_back(changed);
      changed = global;
      changed.function = Unboxer(*module.arena, plan, workers).Wrapper(global);
    }
    functions.push_back(std::move(changed));
  }
  functions.insert(functions.end(), split.begin(), split.end());
  return WithFunctions(module, std::move(functions));
}

}  // namespace

const Pass kUnboxTuples = {
    .name = "unbox_tuples",
    .summary = "tuples and the like passed and returned field by field where they are only taken apart",
    .run = UnboxTuples};

}  // namespace rvm::passes
