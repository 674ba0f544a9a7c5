// Removes `grad`, `vjp`, `jvp` and their like: reverse and forward mode as transformations of the source.
//
// Takes a specialised module. Replaces each call of such an operator by a function literal that computes what it asks
// for (reverse.h, forward.h), innermost first, so that gradients of gradients are gradients of what the inner one
// became. Functions that are called from there get reversed or dual copies. The result has no such operators and is
// ordinary code for the passes that follow.
//
// Errors are diagnostics: arguments and results that have no gradient, operators without a rule, functions that are not
// known when the program is compiled.
#include <deque>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "compiler/ir/walk.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/differentiate/forward.h"
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

// Derivatives of the code around such a transform depend on it, so it stays until all derivatives are made.
bool IsKept(ops::Transform transform) {
  return transform == ops::Transform::kCustomVjp || transform == ops::Transform::kCheckpoint;
}

// Replaces the transforms that were kept by their functions.
class Stripper : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  Expr* RewriteNode(Expr* expr) override {
    return IsKept(TransformOf(expr)) ? Rewrite(Cast<ir::Call>(expr)->args[0]) : RewriteChildren(expr);
  }
};

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
    // A function that differentiates itself always has a next derivative.
    while (!pending_.empty() && !is_endless_) {
      auto [source, mode, constant, name] = std::move(pending_.front());
      pending_.pop_front();
      const ir::Function* function = finished_.at(source);
      Add(name,
          mode == Mode::kReverse ? Reverser(*this).ReverseFunction(*function, constant)
                                 : Forward(*this).ForwardFunction(*function, constant),
          function->span);
    }
    std::vector<ir::GlobalFunction> functions = module_.functions;
    for (ir::GlobalFunction& global : functions) global.function = finished_.at(global.name);
    functions.insert(functions.end(), made_.begin(), made_.end());
    Stripper stripper(arena);
    for (ir::GlobalFunction& global : functions) {
      global.function = Cast<ir::Function>(stripper.Rewrite(const_cast<ir::Function*>(global.function)));
    }
    ir::Module result = WithFunctions(module_, std::move(functions));
    for (const LiftedTypes* types : {&reverse_types, &forward_types}) {
      result.adts.insert(result.adts.end(), types->adts().begin(), types->adts().end());
    }
    return result;
  }

  // ---- Derivatives

  const ir::Function* LiteralOf(const ir::Var* var) override {
    auto found = literals_.find(var);
    return found == literals_.end() ? nullptr : found->second;
  }

  std::string Derived(const ir::GlobalExpr& use, Mode mode, const std::vector<bool>& constant) override {
    auto [it, added] = derived_.try_emplace(Key(use.name, mode, constant));
    if (!added) return it->second;
    std::string name = NewName(use.name, mode == Mode::kReverse ? "_reverse" : "_forward");
    it->second = name;
    if (sources_.contains(use.name)) FreeOfTransforms(use.name, use.span);
    pending_.push_back({use.name, mode, constant, name});
    return name;
  }

  std::string Converter(const ir::AdtType& adt, Conversion conversion, Mode mode) override {
    const auto& open = *DynCast<ir::AdtType>(types(mode).WithoutNames(&adt));
    auto [it, added] = converters_.try_emplace(std::tuple(conversion, mode, ir::TypeToString(&open)));
    if (!added) return it->second;
    std::string name = NewName(NameOf(conversion), "");
    it->second = name;
    ir::Function* function = conversion == Conversion::kPair ? PairFunction(open) : MapFunction(open, conversion, mode);
    Add(name, function, adt.adt->span);
    return name;
  }

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
    if (IsKept(transform)) return AsLiteral(copy);
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
    const ir::Function* result = transform == ops::Transform::kJvp
                                     ? Forward(*this).Transformed(*function, expr->span)
                                     : Reverser(*this).Transformed(*function, transform, expr->span);
    return result == nullptr ? copy : const_cast<ir::Function*>(result);
  }

 private:
  // `fn (x...) { expr(x...) }`.
  Expr* AsLiteral(Expr* expr) {
    const ir::Builder at(arena, expr->span);
    const auto& type = *DynCast<ir::FuncType>(expr->type);
    std::vector<ir::Var*> params;
    std::vector<Expr*> args;
    for (const ir::Type* param : type.params) {
      params.push_back(at.DeclaredVar("x", param));
      args.push_back(at.Use(params.back()));
    }
    Expr* body = at.Call(expr, std::move(args), {}, type.result);
    return at.Function(type.type_params, std::move(params), type.result, body);
  }

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

  std::string NewName(std::string_view stem, std::string_view suffix) {
    std::string first = absl::StrCat(Abseil(stem), Abseil(suffix)), name = first;
    for (int i = 2; !names_.insert(name).second; ++i) name = absl::StrCat(first, i);
    return name;
  }

  void Add(const std::string& name, ir::Function* function, ir::Span span) {
    finished_[name] = function;
    made_.push_back({name, function, span});
  }

  static std::string_view NameOf(Conversion conversion) {
    switch (conversion) {
      case Conversion::kLift: return "lift_value";
      case Conversion::kTake: return "take_adjoints";
      case Conversion::kPair: return "pair_with_tangent_of_same_constructors";
      case Conversion::kValue: return "value_of";
      case Conversion::kTangent: return "tangent_of";
    }
    return "";
  }

  // Returns a pattern of variables for the fields of a constructor of `adt`.
  static ir::Pattern* Fields(const ir::Builder& at, const ir::Constructor* constructor, const ir::AdtType& adt,
                             std::string_view name, std::vector<ir::Var*>& vars) {
    std::vector<ir::Pattern*> patterns;
    for (const ir::Type* type : ir::FieldTypes(at.arena(), *constructor, adt)) {
      vars.push_back(at.Var(name, type));
      patterns.push_back(at.VarPattern(vars.back()));
    }
    return at.ConstructorPattern(constructor, std::move(patterns));
  }

  // `def @convert(%x: From) -> To` by constructors, between T and Boxed(T).
  ir::Function* MapFunction(const ir::AdtType& open, Conversion conversion, Mode mode) {
    const ir::Builder at(arena, open.adt->span);
    const auto& lifted = *DynCast<ir::AdtType>(types(mode).Boxed(&open));
    bool lifts = conversion == Conversion::kLift;
    const ir::AdtType &from = lifts ? open : lifted, &to = lifts ? lifted : open;
    ir::Var* param = at.DeclaredVar("x", &from);
    std::vector<ir::Clause> clauses;
    for (const ir::Constructor* constructor : open.adt->constructors) {
      const ir::Constructor* boxed = types(mode).Boxed(*constructor, open);
      std::vector<const ir::Type*> types = ir::FieldTypes(arena, *constructor, open);
      std::vector<ir::Var*> fields;
      ir::Pattern* pattern = Fields(at, lifts ? constructor : boxed, from, "f", fields);
      std::vector<Expr*> args;
      std::vector<Binding> chain;
      for (size_t i = 0; i < fields.size(); ++i) {
        args.push_back(ConvertField(conversion, mode, fields[i], types[i], chain, open.adt->span));
        if (args.back() == nullptr) args.back() = at.Use(fields[i]);  // an error was reported
      }
      Expr* made = at.Call(at.Constructor(lifts ? boxed : constructor, &to), std::move(args), {}, &to);
      clauses.push_back({pattern, ir::MakeLets(arena, chain, made), open.adt->span});
    }
    return at.Function({}, {param}, &to, at.Match(at.Use(param), std::move(clauses), /*is_complete=*/true, &to));
  }

  Expr* ConvertField(Conversion conversion, Mode mode, ir::Var* field, const ir::Type* type,
                     std::vector<Binding>& chain, ir::Span span) {
    switch (conversion) {
      case Conversion::kLift: return Lifter(*this, mode).Lift(field, type, /*boxed=*/true, chain, span);
      case Conversion::kTake: return Reverser(*this).TakeBoxed(field, type, chain, span);
      case Conversion::kValue: return Forward(*this).Part(field, 0, type, chain, span);
      case Conversion::kTangent: return Forward(*this).Part(field, 1, type, chain, span);
      case Conversion::kPair: break;
    }
    RVM_UNREACHABLE("a pair is made of two values");
  }

  // `def @pair(%x: T, %d: T) -> Boxed(T)`. Fails when it runs if the constructors differ.
  ir::Function* PairFunction(const ir::AdtType& open) {
    const ir::Span span = open.adt->span;
    const ir::Builder at(arena, span);
    const auto& lifted = *DynCast<ir::AdtType>(forward_types.Boxed(&open));
    ir::Var *value = at.DeclaredVar("x", &open), *tangent = at.DeclaredVar("d", &open);
    bool is_only = open.adt->constructors.size() == 1;
    std::vector<ir::Clause> clauses;
    for (const ir::Constructor* constructor : open.adt->constructors) {
      std::vector<const ir::Type*> types = ir::FieldTypes(arena, *constructor, open);
      std::vector<ir::Var*> values, tangents;
      ir::Pattern* outer = Fields(at, constructor, open, "f", values);
      ir::Pattern* inner = Fields(at, constructor, open, "d", tangents);
      std::vector<Expr*> args;
      std::vector<Binding> chain;
      for (size_t i = 0; i < values.size(); ++i) {
        args.push_back(Forward(*this).Pair(values[i], tangents[i], types[i], chain, span));
      }
      Expr* callee = at.Constructor(forward_types.Boxed(*constructor, open), &lifted);
      Expr* made = at.Call(callee, std::move(args), {}, &lifted);
      std::vector<ir::Clause> same = {{inner, ir::MakeLets(arena, chain, made), span}};
      clauses.push_back({outer, at.Match(at.Use(tangent), std::move(same), is_only, &lifted), span});
    }
    Expr* body = at.Match(at.Use(value), std::move(clauses), /*is_complete=*/true, &lifted);
    return at.Function({}, {value, tangent}, &lifted, body);
  }

  const ir::Module& module_;
  absl::flat_hash_map<std::string, const ir::GlobalFunction*> sources_;
  absl::flat_hash_map<std::string, ir::Function*> finished_;
  absl::flat_hash_set<std::string> started_, names_;
  // Name of a function, and which of its arguments are constant.
  using Key = std::tuple<std::string, Mode, std::vector<bool>>;
  absl::node_hash_map<Key, std::string> derived_;
  absl::node_hash_map<std::tuple<Conversion, Mode, std::string>, std::string> converters_;
  absl::flat_hash_map<const ir::Var*, const ir::Function*> literals_;
  struct Pending {
    std::string source;
    Mode mode;
    std::vector<bool> constant;
    std::string name;
  };
  std::deque<Pending> pending_;  // functions to differentiate
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
