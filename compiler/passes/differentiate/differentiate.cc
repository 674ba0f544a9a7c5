// Removes `grad`, `vjp` and their like: reverse mode as a transformation of the source.
//
// Takes a specialised module. Replaces each call of such an operator by a function literal that computes what it asks
// for (reverse.h), innermost first, so that gradients of gradients are gradients of what the inner one became.
// Functions that are called from there get reversed copies. The result has no such operators and is ordinary code for
// the passes that follow.
//
// Errors are diagnostics: arguments and results that have no gradient, operators without a rule, functions that are not
// known when the program is compiled.
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "compiler/ir/walk.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/differentiate/has_transforms.h"
#include "compiler/passes/differentiate/reverse.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using diagnostics::DiagnosticKind;
using ir::Cast;
using ir::DynCast;
using ir::Expr;

ops::Transform TransformOf(const Expr* expr) {
  const ops::OpDef* op = ir::OpCallee(expr);
  return op == nullptr ? ops::Transform::kNone : op->transform;
}

class Differentiator : public Rewriter, public Derivatives {
 public:
  Differentiator(const ir::Module& module, diagnostics::Diagnostics& diagnostics)
      : Rewriter(*module.arena), Derivatives(module, diagnostics), module_(module) {
    for (const ir::GlobalFunction& global : module.functions) {
      sources_[global.name] = &global;
      names_.insert(global.name);
    }
  }

  ir::Module Run() {
    for (const ir::GlobalFunction& global : module_.functions) FreeOfTransforms(global.name, global.span);
    // Of a function that differentiates itself there is always a next derivative.
    while (!pending_.empty() && !is_endless_) {
      auto [source, constant, name] = std::move(pending_.front());
      pending_.pop_front();
      const ir::Function* function = finished_.at(source);
      ir::Function* reversed = Reverser(*this).ReverseFunction(*function, constant);
      finished_[name] = reversed;
      made_.push_back({name, reversed, function->span});
    }
    std::vector<ir::GlobalFunction> functions = module_.functions;
    for (ir::GlobalFunction& global : functions) global.function = finished_.at(global.name);
    functions.insert(functions.end(), made_.begin(), made_.end());
    ir::Module result = WithFunctions(module_, std::move(functions));
    result.adts.insert(result.adts.end(), types.adts().begin(), types.adts().end());
    return result;
  }

  // ---- Derivatives

  const ir::Function* LiteralOf(const ir::Var* var) override {
    auto found = literals_.find(var);
    return found == literals_.end() ? nullptr : found->second;
  }

  std::string ReversedGlobal(const ir::GlobalExpr& use, const std::vector<bool>& constant) override {
    std::pair<std::string, std::vector<bool>> key(use.name, constant);
    auto [it, added] = reversed_.try_emplace(key);
    if (!added) return it->second;
    std::string name = NewName(use.name, "_reverse");
    reversed_[key] = name;
    if (sources_.contains(use.name)) FreeOfTransforms(use.name, use.span);
    pending_.push_back({use.name, constant, name});
    return name;
  }

  std::string LiftFunction(const ir::AdtType& adt) override { return Converter(adt, /*takes=*/false); }
  std::string TakeFunction(const ir::AdtType& adt) override { return Converter(adt, /*takes=*/true); }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Rewriter::RewriteLet(let, chain);
    const Binding& binding = chain.back();
    if (const auto* function = DynCast<ir::Function>(binding.value)) literals_[binding.var] = function;
    const auto* alias = DynCast<ir::VarExpr>(binding.value);
    if (const ir::Function* known = alias == nullptr ? nullptr : LiteralOf(alias->var)) literals_[binding.var] = known;
  }

  Expr* RewriteNode(Expr* expr) override {
    ops::Transform transform = TransformOf(expr);
    Expr* copy = RewriteChildren(expr);
    if (transform == ops::Transform::kNone) return copy;
    Expr* arg = Cast<ir::Call>(copy)->args[0];
    while (const auto* let = DynCast<ir::Let>(arg)) arg = let->body;
    const auto* use = DynCast<ir::VarExpr>(arg);
    const ir::Function* function = use != nullptr ? LiteralOf(use->var) : DynCast<ir::Function>(arg);
    if (function == nullptr) {
      diagnostics.Error(expr->span, DiagnosticKind::kUnknownFunctionDifferentiated,
                        absl::StrCat("`", Abseil(ir::OpCallee(expr)->name),
                                     "` is applied to a function that is known only when the program runs; expected a "
                                     "`def`, a function literal, or a variable that a `let` binds to one"));
      return copy;
    }
    const ir::Function* result = Reverser(*this).Transformed(*function, transform, expr->span);
    return result == nullptr ? copy : const_cast<ir::Function*>(result);
  }

 private:
  // The function without transforms in it, in `finished_`.
  void FreeOfTransforms(const std::string& name, ir::Span use) {
    if (finished_.contains(name)) return;
    if (!started_.insert(name).second) {
      is_endless_ = true;
      diagnostics.Error(use, DiagnosticKind::kGradientOfItself,
                        absl::StrCat("`@", name, "` takes a gradient of code that calls `@", name,
                                     "` itself, and so for ever higher derivatives; expected a fixed number of them"));
      return;
    }
    auto* function = Cast<ir::Function>(Rewrite(sources_.at(name)->function));
    finished_[name] = function;
  }

  std::string NewName(const std::string& stem, std::string_view suffix) {
    std::string name = absl::StrCat(stem, Abseil(suffix));
    for (int i = 2; !names_.insert(name).second; ++i) name = absl::StrCat(stem, Abseil(suffix), i);
    return name;
  }

  // `def @lift(%x: T) -> Boxed(T)` by constructors, or the way back, of adjoints.
  std::string Converter(const ir::AdtType& adt, bool takes) {
    const auto& open = *DynCast<ir::AdtType>(types.WithoutNames(&adt));
    std::string key = absl::StrCat(takes ? "take " : "lift ", ir::TypeToString(&open));
    auto [it, added] = converters_.try_emplace(key);
    if (!added) return it->second;
    std::string name = NewName(takes ? "take_adjoints" : "lift_value", "");
    converters_[key] = name;
    const auto& lifted = *DynCast<ir::AdtType>(types.Boxed(&open));
    const ir::AdtType &from = takes ? lifted : open, &to = takes ? open : lifted;
    const ir::Span span = adt.adt->span;
    const ir::Builder at(arena, span);
    Reverser reverser(*this);
    ir::Var* param = at.DeclaredVar("x", &from);
    std::vector<ir::Clause> clauses;
    for (const ir::Constructor* constructor : open.adt->constructors) {
      std::vector<const ir::Type*> fields = ir::FieldTypes(arena, *constructor, open);
      const ir::Constructor* boxed = types.Boxed(*constructor, open);
      std::vector<const ir::Type*> own = ir::FieldTypes(arena, takes ? *boxed : *constructor, from);
      std::vector<ir::Pattern*> patterns;
      std::vector<Expr*> args;
      std::vector<Binding> chain;
      for (size_t i = 0; i < fields.size(); ++i) {
        ir::Var* var = at.Var("f", own[i]);
        patterns.push_back(at.VarPattern(var));
        Expr* arg = takes ? reverser.TakeBoxed(var, fields[i], chain, span)
                          : reverser.Lift(var, fields[i], /*boxed=*/true, chain, span);
        if (arg == nullptr) return name;
        args.push_back(arg);
      }
      Expr* made = at.Call(at.Constructor(takes ? constructor : boxed, &to), std::move(args), {}, &to);
      clauses.push_back({at.ConstructorPattern(takes ? boxed : constructor, std::move(patterns)),
                         ir::MakeLets(arena, chain, made), span});
    }
    Expr* body = at.Match(at.Use(param), std::move(clauses), /*is_complete=*/true, &to);
    ir::Function* function = at.Function({}, {param}, &to, body);
    finished_[name] = function;
    made_.push_back({name, function, span});
    return name;
  }

  const ir::Module& module_;
  absl::flat_hash_map<std::string, const ir::GlobalFunction*> sources_;
  absl::flat_hash_map<std::string, ir::Function*> finished_;
  absl::flat_hash_set<std::string> started_, names_;
  // By the function's name and which of its arguments are constant.
  absl::flat_hash_map<std::pair<std::string, std::vector<bool>>, std::string> reversed_;
  absl::flat_hash_map<std::string, std::string> converters_;  // by direction and type
  absl::flat_hash_map<const ir::Var*, const ir::Function*> literals_;
  struct Pending {
    std::string source;
    std::vector<bool> constant;
    std::string name;
  };
  std::deque<Pending> pending_;  // functions to reverse
  std::vector<ir::GlobalFunction> made_;
  bool is_endless_ = false;
};

absl::StatusOr<ir::Module> Differentiate(const ir::Module& module, PassContext& context) {
  if (!HasTransforms(module)) return module;
  ir::Module result = Differentiator(module, context.diagnostics).Run();
  if (!context.diagnostics.ok()) return context.diagnostics.ToStatus();
  return DropUnreachable(result, context.entries);
}

}  // namespace

bool HasTransforms(const ir::Module& module) {
  bool found = false;
  for (const ir::GlobalFunction& global : module.functions) {
    ir::ForEachExpr(global.function, [&](const Expr* expr) {
      found = found || TransformOf(expr) != ops::Transform::kNone;
      return !found;
    });
  }
  return found;
}

const Pass kDifferentiate = {.name = "differentiate", .summary = "code in place of gradients", .run = Differentiate};

}  // namespace rvm::passes
