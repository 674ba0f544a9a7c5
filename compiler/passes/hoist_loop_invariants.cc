// Computes what is the same in each call of a recursive function once, and passes it on.
//
// Takes and returns A-normal form. A parameter is invariant if every call of the function in its own body passes it as
// it is; so is what operators compute of invariant values and constants, and what patterns take out of them. Where such
// a value is in scope at a recursive call, that call goes to a second function, `<name>.loop`, with the value as a
// further parameter. There the value is not computed, and recursive calls pass it on.
//
//   def @f(%n, %x, %w) { if (%n == 0) { %x } else { let %t = tanh(%w); @f(%n - 1, nn.dense(%x, %t), %w) } }
//
// becomes
//
//   def @f(%n, %x, %w) { if (%n == 0) { %x } else { let %t = tanh(%w); @f.loop(%n, %x, %w, %t) } }
//   def @f.loop(%n, %x, %w, %t) { if (%n == 0) { %x } else { @f.loop(%n - 1, nn.dense(%x, %t), %w, %t) } }
//
// The first call computes the value where it stood. So a loop of no turns computes nothing, nothing fails that did not,
// and effects keep their order. Once the first function has the values, the second one begins at its beginning, as
// here, if that repeats only steps without effects and kernels. Otherwise the first function is a whole copy, whose
// recursive calls in scope of the values are those of the second.
//
// Worth a parameter are the results of contractions, reductions and opaque operators; of functions of single elements
// (`tanh`) that keep the number of elements; and of arithmetic on the elements of such results. All else is free where
// it is used, because it fuses, or smaller in the form before. Scalars and views are never passed. A value lives as
// long as the recursion, at the price of its memory.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/dim.h"
#include "base/stack_guard.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ops::FusionClass;
using VarSet = absl::flat_hash_set<const ir::Var*>;

bool IsCallOf(const Expr* expr, const ir::GlobalFunction& global) {
  const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
  return callee != nullptr && callee->name == global.name;
}

// Returns the parameters that all calls in the body pass on; none if there are no calls.
VarSet InvariantParams(const ir::GlobalFunction& global) {
  const std::vector<ir::Var*>& params = global.function->params;
  VarSet result(params.begin(), params.end());
  bool is_recursive = false;
  ir::ForEachExpr(global.function->body, [&](const Expr* expr) {
    if (!IsCallOf(expr, global)) return true;
    is_recursive = true;
    const auto* call = Cast<ir::Call>(expr);
    for (size_t i = 0; i < params.size(); ++i) {
      const auto* use = DynCast<ir::VarExpr>(call->args[i]);
      if (use == nullptr || use->var != params[i]) result.erase(params[i]);
    }
    return true;
  });
  return is_recursive ? result : VarSet();
}

// Returns the extents of a tensor but those that are 1, in some order; nothing where one is unknown.
std::vector<std::string> ExtentTexts(const ir::Type* type) {
  const auto* tensor = DynCast<ir::TensorType>(type);
  if (tensor == nullptr || !tensor->shape.is_dims()) return {};
  std::vector<std::string> texts;
  for (const Dim& dim : tensor->shape.dims) {
    if (dim.AsConst() == 1) continue;
    texts.push_back(CanonicalText(dim));
    if (texts.back().empty()) return {};
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

// Evaluating it again changes nothing.
bool IsRepeatable(const Expr* value) {
  switch (value->expr_kind) {
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kTuple:
    case ExprKind::kProject:
    case ExprKind::kFunction:
    case ExprKind::kRefRead: return true;
    case ExprKind::kCall: return ir::OpCallee(value) != nullptr || ir::ConstructorCallee(value) != nullptr;
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor:
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kMatch:
    case ExprKind::kRefCreate:
    case ExprKind::kRefWrite: return false;
  }
  return false;
}

bool NeedsKernel(const Expr* value) {
  const auto* call = DynCast<ir::Call>(value);
  return ir::OpCallee(call) != nullptr && !ops::NeedsNoKernel(*call);
}

// The lets of invariant values, in the order of the program.
struct Invariants {
  std::vector<const ir::Let*> lets;
  std::vector<ir::Var*> worthy;  // those in scope at a recursive call that are worth a parameter
  VarSet may_begin_again;        // see the head of this file
};

// Finds them. Of several recursive calls, that with most such values in scope decides.
class InvariantFinder {
 public:
  explicit InvariantFinder(const ir::GlobalFunction& global) : global_(global), known_(InvariantParams(global)) {}

  Invariants Find() {
    if (!known_.empty()) {
      depends_ = known_;
      VisitBlock(global_.function->body, true);
    }
    return std::move(found_);
  }

 private:
  // `may_begin_again`: to get here once more, only steps without effects and kernels are repeated, and what follows is
  // the function's result.
  void VisitBlock(const Expr* expr, bool may_begin_again) {
    WithStack([&] {
      const size_t mark = in_scope_.size();
      may_begin_again = may_begin_again && HasResultType(expr);
      bool is_free = may_begin_again;  // no kernel is repeated up to this step
      for (; const auto* let = DynCast<ir::Let>(expr); expr = let->body) {
        VisitStep(let->value, false);
        if (AddLet(*let)) {
          in_scope_.push_back(let->var);
          if (may_begin_again) found_.may_begin_again.insert(let->var);
        }
        may_begin_again = may_begin_again && IsRepeatable(let->value);
        is_free = is_free && may_begin_again && (known_.contains(let->var) || !NeedsKernel(let->value));
      }
      VisitStep(expr, is_free);
      in_scope_.resize(mark);
    });
  }

  void VisitStep(const Expr* expr, bool may_begin_again) {
    if (IsCallOf(expr, global_) && in_scope_.size() > found_.worthy.size()) found_.worthy = in_scope_;
    if (const auto* branch = DynCast<ir::If>(expr)) {
      VisitBlock(branch->then_branch, may_begin_again);
      VisitBlock(branch->else_branch, may_begin_again);
    } else if (const auto* match = DynCast<ir::Match>(expr)) {
      for (const ir::Clause& clause : match->clauses) {
        if (IsKnown(match->value)) AddPattern(*clause.pattern);
        VisitBlock(clause.body, may_begin_again);
      }
    } else if (const auto* function = DynCast<ir::Function>(expr)) {
      VisitBlock(function->body, false);
    }
  }

  bool HasResultType(const Expr* expr) const { return ir::TypesEqual(expr->type, TypeOf(*global_.function).result); }

  template <typename Test>
  static bool AnyVar(const Expr* atom, Test test) {
    if (const auto* use = DynCast<ir::VarExpr>(atom)) return test(use->var);
    const auto* tuple = DynCast<ir::Tuple>(atom);
    return tuple != nullptr && std::any_of(tuple->fields.begin(), tuple->fields.end(),
                                           [&](const Expr* field) { return AnyVar(field, test); });
  }
  bool IsKnown(const Expr* atom) const {
    return !AnyVar(atom, [&](const ir::Var* var) { return !known_.contains(var); });
  }

  void AddPattern(const ir::Pattern& pattern) {
    if (pattern.var != nullptr) {
      known_.insert(pattern.var);
      depends_.insert(pattern.var);
    }
    WithStack([&] {
      for (const ir::Pattern* field : pattern.fields) AddPattern(*field);
    });
  }

  // Returns whether the value is one that is worth a parameter.
  bool AddLet(const ir::Let& let) {
    if (!ir::TypesEqual(let.value->type, let.var->type)) return false;
    std::vector<const Expr*> operands;
    bool is_costly = false;
    const auto* project = DynCast<ir::Project>(let.value);
    if (project != nullptr) {
      operands = {project->tuple};
      is_costly = IsCostly(project->tuple);
    } else if (ir::OpCallee(let.value) != nullptr) {
      const auto* call = Cast<ir::Call>(let.value);
      operands.assign(call->args.begin(), call->args.end());
      is_costly = IsCostlyCall(*call);
    } else {
      return false;
    }
    if (!std::all_of(operands.begin(), operands.end(), [&](const Expr* operand) { return IsKnown(operand); })) {
      return false;
    }
    known_.insert(let.var);
    found_.lets.push_back(&let);
    // Values of constants alone are folded, or are smaller as they are.
    bool depends = std::any_of(operands.begin(), operands.end(), [&](const Expr* operand) {
      return AnyVar(operand, [&](const ir::Var* var) { return depends_.contains(var); });
    });
    if (!depends) return false;
    depends_.insert(let.var);
    if (is_costly) costly_.insert(let.var);
    return is_costly && let.var->type->type_kind == ir::TypeKind::kTensor;
  }

  bool IsCostly(const Expr* atom) const {
    return AnyVar(atom, [&](const ir::Var* var) { return costly_.contains(var); });
  }

  bool IsCostlyCall(const ir::Call& call) const {
    const ops::OpDef& op = *ir::OpCallee(&call);
    if (ops::NeedsNoKernel(call) || op.is_reshape) return false;
    std::vector<std::string> extents = ExtentTexts(call.type);
    auto has_elements_of = [&](const Expr* arg) { return !extents.empty() && ExtentTexts(arg->type) == extents; };
    switch (op.fusion) {
      case FusionClass::kContraction:
      case FusionClass::kReduction:
      case FusionClass::kOpaque: return true;
      case FusionClass::kElementwise: return std::any_of(call.args.begin(), call.args.end(), has_elements_of);
      // A product reads a transposed operand as fast as another, often faster (docs/decisions/0035-graph-passes.md).
      case FusionClass::kInjective: return false;
      case FusionClass::kBroadcast:
        return std::any_of(call.args.begin(), call.args.end(),
                           [&](const Expr* arg) { return IsCostly(arg) && has_elements_of(arg); });
    }
    return false;
  }

  const ir::GlobalFunction& global_;
  VarSet known_;    // the same in each call
  VarSet depends_;  // of those: not made of constants alone
  VarSet costly_;
  std::vector<ir::Var*> in_scope_;  // values that are worth a parameter
  Invariants found_;
};

// Steps that the second function does not compute, and the values that it is passed instead.
struct Plan {
  std::vector<ir::Var*> passed;
  VarSet dropped;
  bool begins_again = false;
};

Plan MakePlan(const ir::GlobalFunction& global, const Invariants& found) {
  Plan plan;
  if (found.worthy.empty()) return plan;
  VarSet worthy(found.worthy.begin(), found.worthy.end());
  UseCounts uses;
  CountUses(global.function->body, uses);
  UseCounts uses_by_dropped;
  // Users first. Values that only dropped ones are made of are dropped too.
  for (auto let = found.lets.rbegin(); let != found.lets.rend(); ++let) {
    const ir::Var* var = (*let)->var;
    bool is_needed = uses_by_dropped[var].all < uses[var].all;
    if (!worthy.contains(var) && (is_needed || uses[var].all == 0)) continue;
    if (is_needed) plan.passed.push_back((*let)->var);
    plan.dropped.insert(var);
    CountUses((*let)->value, uses_by_dropped);
  }
  std::reverse(plan.passed.begin(), plan.passed.end());
  plan.begins_again = !plan.passed.empty() && found.may_begin_again.contains(plan.passed.back());
  return plan;
}

class CallRewriter : public Rewriter {
 public:
  CallRewriter(ir::Arena& arena, const ir::GlobalFunction& global, const Plan& plan, std::string_view name)
      : Rewriter(arena), global_(global), plan_(plan), name_(name) {}

 protected:
  const ir::FuncType* WithPassed(const ir::FuncType& type) {
    std::vector<const ir::Type*> params = type.params;
    for (const ir::Var* value : plan_.passed) params.push_back(value->type);
    return arena_.New<ir::FuncType>(type.type_params, std::move(params), type.result, type.constraints);
  }

  // Returns a call of the second function with `values` after the arguments.
  Expr* CallLoop(ir::Span span, const ir::FuncType& type, std::vector<Expr*> args,
                 const std::vector<ir::Var*>& values) {
    const ir::Builder at = At(span);
    for (ir::Var* value : values) args.push_back(at.Use(value));
    return at.Call(at.Global(std::string(name_), WithPassed(type)), std::move(args), {}, type.result);
  }
  Expr* CallLoop(const ir::Call& call, const std::vector<ir::Var*>& values) {
    Expr* made = CallLoop(call.span, *DynCast<ir::FuncType>(call.callee->type), RewriteAll(call.args), values);
    made->type = call.type;
    return made;
  }

  const ir::GlobalFunction& global_;
  const Plan& plan_;
  const std::string_view name_;
};

// Makes the first function.
class FirstCall : public CallRewriter {
 public:
  using CallRewriter::CallRewriter;

  Expr* Rewrite(Expr* expr) override {
    return WithStack([&] { return RewriteBlock(expr); });
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    bool has_all = in_scope_ == plan_.passed.size();
    return has_all && IsCallOf(expr, global_) ? CallLoop(*Cast<ir::Call>(expr), plan_.passed) : RewriteChildren(expr);
  }

 private:
  Expr* RewriteBlock(Expr* expr) {
    const size_t outer = in_scope_;
    std::vector<Binding> chain;
    Expr* body = nullptr;
    for (; const auto* let = DynCast<ir::Let>(expr); expr = let->body) {
      RewriteLet(*let, chain);
      in_scope_ += std::count(plan_.passed.begin(), plan_.passed.end(), let->var);
      if (!plan_.begins_again || let->var != plan_.passed.back()) continue;
      body = BeginAgain(let->span);
      DropUnused(chain, body);
      break;
    }
    if (body == nullptr) body = RewriteNode(expr);
    in_scope_ = outer;
    return FinishLets(chain, body);
  }

  Expr* BeginAgain(ir::Span span) {
    std::vector<Expr*> args;
    for (ir::Var* param : global_.function->params) args.push_back(At(span).Use(param));
    return CallLoop(span, TypeOf(*global_.function), std::move(args), plan_.passed);
  }

  static void DropUnused(std::vector<Binding>& chain, const Expr* body) {
    UseCounts uses;
    CountUses(body, uses);
    std::vector<Binding> kept;
    for (auto binding = chain.rbegin(); binding != chain.rend(); ++binding) {
      if (!uses.contains(binding->var)) continue;
      CountUses(binding->value, uses);
      kept.push_back(*binding);
    }
    chain.assign(kept.rbegin(), kept.rend());
  }

  size_t in_scope_ = 0;  // of the values that are passed
};

// Makes the second function.
class Loop : public CallRewriter {
 public:
  using CallRewriter::CallRewriter;

  ir::GlobalFunction Make() {
    auto* function = arena_.New<ir::Function>(*global_.function);
    for (const ir::Var* value : plan_.passed) {
      ir::Var* param = At(value->span).DeclaredVar(value->name, value->type);
      params_.push_back(param);
      param_of_[value] = param;
      function->params.push_back(param);
    }
    function->type = WithPassed(TypeOf(*global_.function));
    function->body = Rewrite(function->body);
    ir::GlobalFunction loop = global_;
    loop.name = std::string(name_);
    loop.shown_as = std::string(global_.ShownName());
    // The first function binds the old variables.
    loop.function = Copier(arena_).Copy(*function);
    return loop;
  }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    if (!plan_.dropped.contains(let.var)) Rewriter::RewriteLet(let, chain);
  }
  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = param_of_.find(use->var);
      return found == param_of_.end() ? RewriteChildren(expr) : At(expr->span).Use(found->second);
    }
    return IsCallOf(expr, global_) ? CallLoop(*Cast<ir::Call>(expr), params_) : RewriteChildren(expr);
  }

 private:
  std::vector<ir::Var*> params_;  // in place of the values
  absl::flat_hash_map<const ir::Var*, ir::Var*> param_of_;
};

absl::StatusOr<ir::Module> HoistLoopInvariants(const ir::Module& module, PassContext&) {
  absl::flat_hash_set<std::string> names;
  for (const ir::GlobalFunction& global : module.functions) names.insert(global.name);
  std::vector<ir::GlobalFunction> functions;
  for (const ir::GlobalFunction& global : module.functions) {
    functions.push_back(global);
    Plan plan = MakePlan(global, InvariantFinder(global).Find());
    if (plan.passed.empty()) continue;
    std::string base = absl::StrCat(global.name, ".loop"), name = base;
    for (int i = 1; !names.insert(name).second; ++i) name = absl::StrCat(base, "_", i);
    auto* first = module.arena->New<ir::Function>(*global.function);
    first->body = FirstCall(*module.arena, global, plan, name).Rewrite(first->body);
    functions.back().function = first;
    functions.push_back(Loop(*module.arena, global, plan, name).Make());
  }
  return WithFunctions(module, std::move(functions));
}

}  // namespace

const Pass kHoistLoopInvariants = {.name = "hoist_loop_invariants",
                                   .summary = "what is the same in each call of a recursive function computed once",
                                   .run = HoistLoopInvariants,
                                   .needs = Form::kANormal};

}  // namespace rvm::passes
