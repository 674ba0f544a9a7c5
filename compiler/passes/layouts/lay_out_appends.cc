// Keeps tensors that loops append to along an inner axis with that axis in front, where an append needs no copy.
//
// Takes and gives A-normal form. A decoder's cache of several heads, (b, h, n, d), is joined with new rows along n:
//
//   def @f(%i, %c: Tensor[(1, 8, ?, 64), float32], %x) {
//     if (%i == 0) { %x } else {
//       let %d = concatenate((%c, %x), axis=2);
//       @f(%i - 1, %d, g(%d))
//     }
//   }
//
// The rows of a head lie one behind the other, so the whole cache moves with each append. It becomes
//
//   def @f(%i, %c: Tensor[(?, 1, 8, 64), float32], %x) {
//     if (%i == 0) { %x } else {
//       let %t = transpose(%x, axes=[2, 0, 1, 3]);
//       let %d = concatenate((%c, %t), axis=0);
//       let %t_1 = transpose(%d, axes=[1, 2, 0, 3]);
//       @f(%i - 1, %d, g(%t_1))
//     }
//   }
//
// whose append writes only %x where nobody else holds the cache (docs/decisions/0054-caches-of-decoders.md); kernels
// read through the transpose, whose last axis stays where it is. All values on a cycle with the append change alike,
// through functions, tuples and branches (append_layouts.h). A value that enters or leaves the cycle is transposed
// there. An entry that is called from the cycle becomes a wrapper, which keeps the signature, and a worker.
//
// Programs with devices stay as they are: results there are computed as a whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/layouts/append_layouts.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/placement/device_rules.h"
#include "compiler/passes/rewriter.h"
#include "compiler/passes/workers.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

// Returns whether a step may have the expression as an operand or as its callee.
bool IsOperand(const Expr* expr) {
  switch (expr->expr_kind) {
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor:
    case ExprKind::kTuple: return true;
    case ExprKind::kProject:
    case ExprKind::kFunction:
    case ExprKind::kCall:
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kMatch:
    case ExprKind::kRefCreate:
    case ExprKind::kRefRead:
    case ExprKind::kRefWrite: return false;
  }
  return false;
}

// Returns the order of axes that makes a tensor with axis `have` in front one with axis `want` in front.
std::vector<int64_t> Permutation(size_t rank, int64_t have, int64_t want) {
  std::vector<int64_t> from(rank), to(rank), axes;
  for (size_t i = 0; i < rank; ++i) from[i] = to[i] = static_cast<int64_t>(i);
  std::rotate(from.begin(), from.begin() + have, from.begin() + have + 1);
  std::rotate(to.begin(), to.begin() + want, to.begin() + want + 1);
  for (int64_t axis : to) axes.push_back(std::find(from.begin(), from.end(), axis) - from.begin());
  return axes;
}

class LayoutRewriter : public Rewriter {
 public:
  LayoutRewriter(ir::Arena& arena, const AppendLayouts& layouts, const Workers& workers)
      : Rewriter(arena), layouts_(layouts), workers_(workers) {}

  // Returns the function with the signature that the layouts give it.
  ir::Function* Worker(const ir::GlobalFunction& global) {
    auto* function = arena_.New<ir::Function>(*global.function);
    for (ir::Var*& param : function->params) param = RewriteBinder(param);
    function->type = ArrangedType(TypeOf(*global.function), global.name);
    if (function->result_annotation != nullptr) function->result_annotation = TypeOf(*function).result;
    function->body = Block(function->body, layouts_.OfResult(global.name));
    return function;
  }

  // Returns a function with the old signature that calls it.
  ir::Function* Wrapper(const ir::GlobalFunction& global) {
    ir::Function* function = MakeCaller(global);
    function->body = Block(function->body, AsIs(TypeOf(*function).result));
    return function;
  }

  // Returns an expression whose value is used as it was: an operand, or the body of a function literal.
  Expr* Rewrite(Expr* expr) override {
    if (expr->expr_kind == ExprKind::kVar) return Operand(expr, AsIs(expr->type));
    return IsOperand(expr) ? RewriteChildren(expr) : Block(expr, AsIs(expr->type));
  }

 protected:
  ir::Var* RewriteBinder(ir::Var* var) override {
    Layout layout = layouts_.OfVar(*var);
    const ir::Type* type = Arranged(arena_, var->type, layout);
    if (type == var->type) return var;
    ir::Var* arranged = At(var->span).Var(var->name, type);
    if (var->annotation != nullptr) arranged->annotation = type;
    arranged_[var] = arranged;
    return arranged;
  }

 private:
  static Layout AsIs(const ir::Type* type) { return Layout(NumLeaves(type)); }

  const ir::FuncType* ArrangedType(const ir::FuncType& type, const std::string& function) {
    std::vector<const ir::Type*> params;
    for (size_t i = 0; i < type.params.size(); ++i) {
      params.push_back(Arranged(arena_, type.params[i], layouts_.OfParam(function, i)));
    }
    const ir::Type* result = Arranged(arena_, type.result, layouts_.OfResult(function));
    return arena_.New<ir::FuncType>(type.type_params, std::move(params), result, type.constraints);
  }

  // Returns the block with a value of layout `want`.
  Expr* Block(Expr* expr, const Layout& want) {
    return WithStack([&] {
      std::vector<Binding> chain;
      for (; const auto* let = DynCast<ir::Let>(expr); expr = let->body) {
        // A function sees its own variable, which no layout changes.
        Expr* value = Step(let->value, layouts_.OfVar(*let->var), chain);
        chain.push_back({RewriteBinder(let->var), value, let->span});
      }
      Expr* body = Step(expr, want, chain);
      return MakeLets(arena_, chain, body);
    });
  }

  // Returns a step with a value of layout `want`; what it needs first is appended to `chain`.
  Expr* Step(Expr* expr, const Layout& want, std::vector<Binding>& chain) {
    std::vector<Binding>* outer = std::exchange(chain_, &chain);
    Expr* result = StepInto(expr, want);
    chain_ = outer;
    return result;
  }

  Expr* StepInto(Expr* expr, const Layout& want) {
    const ir::Builder at = At(expr->span);
    if (const auto* tuple = DynCast<ir::Tuple>(expr)) {
      std::vector<Expr*> fields;
      auto next = want.begin();
      for (Expr* field : tuple->fields) {
        auto end = next + static_cast<std::ptrdiff_t>(NumLeaves(field->type));
        fields.push_back(Operand(field, Layout(next, end)));
        next = end;
      }
      return at.Tuple(std::move(fields), Arranged(arena_, expr->type, want));
    }
    if (const auto* branch = DynCast<ir::If>(expr)) {
      Expr* condition = Rewrite(branch->condition);
      Expr* then_branch = Block(branch->then_branch, want);
      Expr* else_branch = Block(branch->else_branch, want);
      return at.If(condition, then_branch, else_branch, Arranged(arena_, expr->type, want));
    }
    if (const auto* match = DynCast<ir::Match>(expr)) return MatchInto(*match, want);
    if (const auto* function = DynCast<ir::Function>(expr)) {
      auto* copy = arena_.New<ir::Function>(*function);
      copy->body = Block(copy->body, AsIs(copy->body->type));
      return copy;
    }
    Layout have = AsIs(expr->type);
    Expr* value = OwnValue(expr, want, have);
    return Convert(value, expr->type, have, want);
  }

  // Returns the value as its step gives it; sets the layout that it has.
  Expr* OwnValue(Expr* expr, const Layout& want, Layout& have) {
    const ir::Builder at = At(expr->span);
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      have = layouts_.OfVar(*use->var);
      auto found = arranged_.find(use->var);
      return at.Use(found == arranged_.end() ? use->var : found->second);
    }
    const auto* project = DynCast<ir::Project>(expr);
    if (project != nullptr && project->tuple->expr_kind == ExprKind::kVar) {
      Layout layout;
      Expr* tuple = OwnValue(project->tuple, want, layout);
      const auto& fields = DynCast<ir::TupleType>(project->tuple->type)->fields;
      auto first = layout.begin();
      for (uint32_t i = 0; i < project->index; ++i) first += static_cast<std::ptrdiff_t>(NumLeaves(fields[i]));
      have.assign(first, first + static_cast<std::ptrdiff_t>(have.size()));
      return at.Project(tuple, project->index, Arranged(arena_, expr->type, have));
    }
    const auto* call = DynCast<ir::Call>(expr);
    if (ir::GlobalCallee(expr) != nullptr) return FunctionCall(*call, have);
    const ops::OpDef* op = ir::OpCallee(expr);
    bool joins = op != nullptr && op->name == "concatenate" && want.size() == 1 && want[0] > 0;
    if (joins && call->args[0]->expr_kind == ExprKind::kTuple && JoinedAxis(*call) == want[0]) {
      have = want;
      return Join(*call, want);
    }
    return RewriteChildren(expr);
  }

  Expr* FunctionCall(const ir::Call& call, Layout& have) {
    const auto* callee = Cast<ir::GlobalExpr>(call.callee);
    std::vector<Expr*> args;
    for (size_t i = 0; i < call.args.size(); ++i) {
      args.push_back(Operand(call.args[i], layouts_.OfParam(callee->name, i)));
    }
    have = layouts_.OfResult(callee->name);
    auto* target = arena_.New<ir::GlobalExpr>(*callee);
    auto worker = workers_.find(callee->name);
    if (worker != workers_.end()) target->name = worker->second;
    target->type = ArrangedType(*DynCast<ir::FuncType>(callee->type), callee->name);
    return At(call.span).Call(target, std::move(args), call.attrs, Arranged(arena_, call.type, have));
  }

  // `concatenate` along the axis in front.
  Expr* Join(const ir::Call& call, const Layout& layout) {
    const ir::Builder at = At(call.span);
    std::vector<Expr*> parts;
    for (Expr* part : Cast<ir::Tuple>(call.args[0])->fields) parts.push_back(Operand(part, layout));
    ir::Attrs attrs = call.attrs;
    attrs.Set("axis", int64_t{0});
    return at.CallOp(ir::OpCallee(&call), {at.Tuple(std::move(parts))}, std::move(attrs),
                     Arranged(arena_, call.type, layout));
  }

  Expr* MatchInto(const ir::Match& match, const Layout& want) {
    Expr* value = nullptr;
    if (const auto* tuple = DynCast<ir::Tuple>(match.value)) {
      value = MatchedTuple(match, *tuple);
    } else if (match.value->expr_kind == ExprKind::kVar) {
      Layout have;
      value = OwnValue(match.value, want, have);
    } else {
      value = Rewrite(match.value);
    }
    std::vector<ir::Clause> clauses;
    for (const ir::Clause& clause : match.clauses) {
      ir::Pattern* pattern = RewritePattern(*clause.pattern);
      clauses.push_back({pattern, Block(clause.body, want), clause.span});
    }
    ir::Match* result =
        At(match.span).Match(value, std::move(clauses), match.is_complete, Arranged(arena_, match.type, want));
    result->is_let = match.is_let;
    return result;
  }

  // Fields of a tuple that is matched in place have the layouts of what they name.
  Expr* MatchedTuple(const ir::Match& match, const ir::Tuple& tuple) {
    std::vector<Expr*> fields;
    for (Expr* field : tuple.fields) {
      Layout have = AsIs(field->type);
      fields.push_back(field->expr_kind == ExprKind::kVar ? OwnValue(field, have, have) : RewriteChildren(field));
    }
    return At(match.value->span).Tuple(std::move(fields));
  }

  // Returns an operand as a value of layout `want`, again an operand.
  Expr* Operand(Expr* operand, const Layout& want) { return Named(StepInto(operand, want)); }

  Expr* Named(Expr* expr) {
    bool is_atom = IsOperand(expr) && expr->expr_kind != ExprKind::kTuple;
    return is_atom ? expr : At(expr->span).Bind("t", expr, *chain_);
  }

  // `value`, of layout `have` and of type `type` without it, as one of layout `want`.
  Expr* Convert(Expr* value, const ir::Type* type, const Layout& have, const Layout& want) {
    if (have == want) return value;
    const ir::Builder at = At(value->span);
    Expr* named = Named(value);
    if (const auto* tensor = DynCast<ir::TensorType>(type)) {
      std::vector<int64_t> axes = Permutation(tensor->shape.dims.size(), have[0], want[0]);
      return ops::BuildCall(at, "transpose", {named}, {{"axes", ir::IntList(axes)}});
    }
    return WithStack([&] {
      std::vector<Expr*> fields;
      size_t first = 0, index = 0;
      for (const ir::Type* field : DynCast<ir::TupleType>(type)->fields) {
        size_t end = first + NumLeaves(field);
        Layout from(have.begin() + static_cast<std::ptrdiff_t>(first), have.begin() + static_cast<std::ptrdiff_t>(end));
        Layout to(want.begin() + static_cast<std::ptrdiff_t>(first), want.begin() + static_cast<std::ptrdiff_t>(end));
        Expr* part = at.Project(at.Use(Cast<ir::VarExpr>(named)->var), index++);
        fields.push_back(Named(Convert(part, field, from, to)));
        first = end;
      }
      return at.Tuple(std::move(fields));
    });
  }

  const AppendLayouts& layouts_;
  const Workers& workers_;
  std::vector<Binding>* chain_ = nullptr;  // of the step that is rewritten
  absl::flat_hash_map<const ir::Var*, ir::Var*> arranged_;
};

absl::StatusOr<ir::Module> LayOutAppends(const ir::Module& module, PassContext& context) {
  if (context.devices != nullptr && !context.devices->kinds().empty()) return module;
  AppendLayouts layouts(module);
  if (layouts.empty()) return module;
  Workers workers =
      NameWorkers(module, context.entries, [&](std::string_view entry) { return layouts.ChangesSignature(entry); });
  std::vector<ir::GlobalFunction> functions, split;
  for (const ir::GlobalFunction& global : module.functions) {
    ir::GlobalFunction changed = global;
    changed.function = LayoutRewriter(*module.arena, layouts, workers).Worker(global);
    if (auto worker = workers.find(global.name); worker != workers.end()) {
      changed.name = worker->second;
      changed.shown_as = std::string(global.ShownName());
      split.push_back(changed);
      changed = global;
      changed.function = LayoutRewriter(*module.arena, layouts, workers).Wrapper(global);
    }
    functions.push_back(std::move(changed));
  }
  functions.insert(functions.end(), split.begin(), split.end());
  return WithFunctions(module, std::move(functions));
}

}  // namespace

const Pass kLayOutAppends = {.name = "lay_out_appends",
                             .summary = "tensors that loops append to with the joined axis in front",
                             .run = LayOutAppends,
                             .needs = Form::kANormal};

}  // namespace rvm::passes
