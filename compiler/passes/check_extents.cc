// Adds run-time checks of declared extents that type inference could not prove.
//
// Takes a typed module. Where a tensor flows to a location that is declared with an extent not provably equal to its
// own (the result of a function, a let, a field, an argument of a function value, the contents of a reference), the
// pass inserts a call of `check_extent`. The value of a named extent is computed from the `extent`s of the function's
// parameters. An extent that no parameter determines, or inside a data type or a function type, is not checked; a
// warning says so. Arguments of global functions are checked by the callee on entry.
//
// The reference evaluator runs the output of this pass, so it makes the same checks as compiled code.
#include <algorithm>
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
#include "base/abseil.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/families/extent.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/repeated_extents.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;

// The declared type of the location that a value flows to. `before` and `name` describe it: "the value of `%" and "x".
struct Place {
  const Type* type = nullptr;  // null: any type will do
  std::string_view before, name;

  Place With(const Type* part) const { return {part, before, name}; }
  std::string Text() const { return absl::StrCat(Abseil(before), Abseil(name), name.empty() ? "" : "`"); }
};

// Returns whether an extent `from` may differ at run time from the declared extent `to`.
bool IsUnproven(const Dim& from, const Dim& to) { return !to.is_any() && CompareDims(from, to) != DimEquality::kEqual; }

bool HaveUnproven(const ir::ShapeTerm& from, const ir::ShapeTerm& to) {
  if (!from.is_dims() || !to.is_dims() || from.dims.size() != to.dims.size()) return false;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    if (IsUnproven(from.dims[i], to.dims[i])) return true;
  }
  return false;
}

enum class Proof : uint8_t {
  kProven,
  kCheckable,  // a tensor, or a tuple with tensors
  kHidden,     // inside a data type, a function type or a reference
};

Proof Worse(Proof a, Proof b) { return std::max(a, b); }

Proof Prove(const Type* from, const Type* to);

Proof ProveOnThisStack(const Type* from, const Type* to) {
  Proof proof = Proof::kProven;
  auto inside = [&](const Type* a, const Type* b) {
    if (Prove(a, b) != Proof::kProven) proof = Proof::kHidden;
  };
  switch (to->type_kind) {
    case ir::TypeKind::kTensor:
      if (HaveUnproven(DynCast<ir::TensorType>(from)->shape, DynCast<ir::TensorType>(to)->shape)) {
        proof = Proof::kCheckable;
      }
      break;
    case ir::TypeKind::kTuple: {
      const auto &a = DynCast<ir::TupleType>(from)->fields, &b = DynCast<ir::TupleType>(to)->fields;
      for (size_t i = 0; i < b.size(); ++i) proof = Worse(proof, Prove(a[i], b[i]));
      break;
    }
    case ir::TypeKind::kRef: inside(DynCast<ir::RefType>(from)->contents, DynCast<ir::RefType>(to)->contents); break;
    case ir::TypeKind::kFunc: {
      const auto &a = *DynCast<ir::FuncType>(from), &b = *DynCast<ir::FuncType>(to);
      if (!a.type_params.empty() || !b.type_params.empty()) break;
      for (size_t i = 0; i < b.params.size(); ++i) inside(b.params[i], a.params[i]);
      inside(a.result, b.result);
      break;
    }
    case ir::TypeKind::kAdt: {
      const auto &a = DynCast<ir::AdtType>(from)->args, &b = DynCast<ir::AdtType>(to)->args;
      for (size_t i = 0; i < b.size(); ++i) {
        if (b[i].kind == ir::Kind::kType) inside(a[i].type, b[i].type);
        bool is_shape = b[i].kind == ir::Kind::kShape && HaveUnproven(a[i].shape, b[i].shape);
        bool is_dim = b[i].kind == ir::Kind::kShapeVar && IsUnproven(a[i].dim, b[i].dim);
        if (is_shape || is_dim) proof = Proof::kHidden;
      }
      break;
    }
    case ir::TypeKind::kParam:
    case ir::TypeKind::kHole: break;
  }
  return proof;
}

Proof Prove(const Type* from, const Type* to) {
  if (from == to || from->type_kind != to->type_kind) return Proof::kProven;
  return WithStack([&] { return ProveOnThisStack(from, to); });
}

class Checker : public Rewriter {
 public:
  Checker(ir::Arena& arena, diagnostics::Diagnostics& diagnostics) : Rewriter(arena), diagnostics_(diagnostics) {}

  // Null if it needs no check.
  ir::Function* Check(const ir::GlobalFunction& global) {
    num_checks_ = 0;
    ir::Function* checked = RewriteLiteral(*global.function, "the result of `@", global.name);
    return num_checks_ == 0 ? nullptr : checked;
  }

 protected:
  Expr* Rewrite(Expr* expr) override {
    places_.push_back(std::exchange(next_, {}));
    Expr* result = Rewriter::Rewrite(expr);
    places_.pop_back();
    return result;
  }

  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    const auto* function = DynCast<ir::Function>(let.value);
    Expr* value = function != nullptr ? RewriteLiteral(*function, "the result of `%", let.var->name)
                                      : RewriteAt({let.var->type, "the value of `%", let.var->name}, let.value);
    chain.push_back({let.var, value, let.span});
  }

  Expr* RewriteNode(Expr* expr) override {
    Place place = places_.back();
    bool is_unproven = place.type != nullptr && Prove(expr->type, place.type) != Proof::kProven;
    const ir::Builder at = At(expr->span);
    switch (expr->expr_kind) {
      case ExprKind::kIf: {
        const auto* branch = Cast<ir::If>(expr);
        if (!is_unproven) place = {expr->type, "a branch", ""};
        Expr* condition = Rewrite(branch->condition);
        Expr* then_branch = RewriteAt(place, branch->then_branch);
        return at.If(condition, then_branch, RewriteAt(place, branch->else_branch), place.type);
      }
      case ExprKind::kMatch:
        if (!is_unproven) place = {expr->type, "a branch", ""};
        return RewriteMatch(*Cast<ir::Match>(expr), place);
      case ExprKind::kTuple: {
        const auto& tuple = *Cast<ir::Tuple>(expr);
        if (!is_unproven) place = {};
        std::vector<Expr*> fields;
        for (size_t i = 0; i < tuple.fields.size(); ++i) {
          bool is_wanted = place.type != nullptr;
          Place field = place.With(is_wanted ? DynCast<ir::TupleType>(place.type)->fields[i] : nullptr);
          fields.push_back(RewriteAt(field, tuple.fields[i]));
        }
        return at.Tuple(std::move(fields), is_unproven ? place.type : expr->type);
      }
      case ExprKind::kFunction: return RewriteLiteral(*Cast<ir::Function>(expr), "the result of a function", "");
      case ExprKind::kCall: {
        const auto& call = *Cast<ir::Call>(expr);
        bool is_built_here = call.callee->expr_kind == ExprKind::kConstructor;
        if (is_unproven && is_built_here) return RewriteConstruction(call, place);
        return Checked(RewriteCall(call), place);
      }
      case ExprKind::kRefCreate: {
        Place contents{DynCast<ir::RefType>(expr->type)->contents, "the contents of a reference", ""};
        Expr* value = RewriteAt(contents, Cast<ir::RefCreate>(expr)->value);
        return Checked(at.RefCreate(value, expr->type), place);
      }
      case ExprKind::kRefWrite: {
        const auto* write = Cast<ir::RefWrite>(expr);
        Expr* ref = Rewrite(write->ref);
        Place contents{DynCast<ir::RefType>(ref->type)->contents, "the contents of a reference", ""};
        return at.RefWrite(ref, RewriteAt(contents, write->value), expr->type);
      }
      case ExprKind::kConstant:
      case ExprKind::kVar:
      case ExprKind::kGlobal:
      case ExprKind::kOp:
      case ExprKind::kConstructor:
      case ExprKind::kProject:
      case ExprKind::kLet:
      case ExprKind::kRefRead: return Checked(RewriteChildren(expr), place);
    }
  }

  ir::Var* RewriteBinder(ir::Var* var) override {
    auto found = renamed_.find(var);
    return found == renamed_.end() ? var : found->second;
  }

 private:
  // How to compute a named extent: `extent(var, axis) + offset`, or of the field of `var` that `path` leads to.
  struct Witness {
    ir::Var* var;
    std::vector<uint32_t> path;
    int64_t axis;
    Dim offset;
  };

  Expr* RewriteAt(const Place& place, Expr* expr) {
    next_ = place;
    return Rewrite(expr);
  }

  ir::Function* RewriteLiteral(const ir::Function& function, std::string_view before, std::string_view name) {
    std::vector<const Type*> unchecked = UncheckedParamTypes(arena_, function.params);
    // The names that a literal binds are in scope in it alone: two literals of one type may bind the same ones.
    auto outer_exact = exact_;
    auto outer_shifted = shifted_;
    for (const ir::TypeParam* param : function.type_params) {
      exact_.erase(param->id);
      shifted_.erase(param->id);
    }
    for (size_t i = 0; i < function.params.size(); ++i) {
      ir::Var* param = function.params[i];
      ir::Var* passed = param;
      if (unchecked[i] != nullptr) {
        passed = At(param->span).Var(param->name, param->type);
        renamed_[param] = passed;
      }
      NoteWitnesses(passed, {}, param->type);
    }
    std::vector<Binding> checked;
    for (size_t i = 0; i < function.params.size(); ++i) {
      if (unchecked[i] == nullptr) continue;
      ir::Var* param = function.params[i];
      const ir::Builder at = At(param->span);
      ir::Var* known = at.Var(param->name, unchecked[i]);
      checked.push_back({known, at.Use(renamed_.at(param)), param->span});
      bool is_tuple = param->type->type_kind == ir::TypeKind::kTuple;
      Place place{param->type, is_tuple ? "a field of `%" : "`%", param->name};
      checked.push_back({param, Checked(at.Use(known), place), param->span});
    }
    next_ = {TypeOf(function).result, before, name};
    ir::Function* result = RewriteFunction(function);
    if (!checked.empty()) result->body = MakeLets(arena_, checked, result->body);
    exact_ = std::move(outer_exact);
    shifted_ = std::move(outer_shifted);
    return result;
  }

  // How to compute the extents that `type` names, until the end of the function whose parameter it is.
  void NoteWitnesses(ir::Var* param, const std::vector<uint32_t>& path, const Type* type) {
    if (const auto* tuple = DynCast<ir::TupleType>(type)) {
      for (uint32_t i = 0; i < tuple->fields.size(); ++i) {
        std::vector<uint32_t> inner = path;
        inner.push_back(i);
        WithStack([&] { NoteWitnesses(param, inner, tuple->fields[i]); });
      }
      return;
    }
    const auto* tensor = DynCast<ir::TensorType>(type);
    if (tensor == nullptr || !tensor->shape.is_dims()) return;
    for (size_t axis = 0; axis < tensor->shape.dims.size(); ++axis) {
      const Dim& dim = tensor->shape.dims[axis];
      Witness witness{param, path, static_cast<int64_t>(axis), 0};
      if (dim.kind() == DimKind::kVar) {
        exact_.try_emplace(dim.id(), witness);
      } else if ((dim.kind() == DimKind::kAdd || dim.kind() == DimKind::kSub) && dim.lhs().kind() == DimKind::kVar &&
                 dim.rhs().is_const()) {
        witness.offset = dim.kind() == DimKind::kAdd ? Dim(0) - dim.rhs() : dim.rhs();
        shifted_.try_emplace(dim.lhs().id(), witness);
      }
    }
  }

  const Witness* FindWitness(int64_t name) const {
    if (auto exact = exact_.find(name); exact != exact_.end()) return &exact->second;
    auto shifted = shifted_.find(name);
    return shifted == shifted_.end() ? nullptr : &shifted->second;
  }

  Expr* RewriteCall(const ir::Call& call) {
    const auto* type = DynCast<ir::FuncType>(call.callee->type);
    ExprKind kind = call.callee->expr_kind;
    Expr* callee = Rewrite(call.callee);
    std::vector<Expr*> args;
    for (size_t i = 0; i < call.args.size(); ++i) {
      Place place;
      if (kind == ExprKind::kConstructor) {
        place = {type->params[i], "a field of `", Cast<ir::ConstructorExpr>(call.callee)->constructor->name};
      } else if (kind == ExprKind::kVar) {
        place = {type->params[i], "an argument of `%", Cast<ir::VarExpr>(call.callee)->var->name};
      } else if (kind != ExprKind::kOp && kind != ExprKind::kGlobal) {
        place = {type->params[i], "an argument of a function", ""};
      }
      args.push_back(RewriteAt(place, call.args[i]));
    }
    return At(call.span).Call(callee, std::move(args), call.attrs, call.type);
  }

  // A constructor call that flows to a type with other extents is rebuilt at that type, so that its fields are checked.
  Expr* RewriteConstruction(const ir::Call& call, const Place& place) {
    const ir::Constructor& constructor = *ir::ConstructorCallee(&call);
    Expr* callee = At(call.callee->span).Constructor(&constructor, DynCast<ir::AdtType>(place.type));
    const std::vector<const Type*>& fields = DynCast<ir::FuncType>(callee->type)->params;
    std::vector<Expr*> args;
    for (size_t i = 0; i < call.args.size(); ++i) {
      args.push_back(RewriteAt({fields[i], "a field of `", constructor.name}, call.args[i]));
    }
    return At(call.span).Call(callee, std::move(args), call.attrs, place.type);
  }

  ir::Match* RewriteMatch(const ir::Match& match, const Place& place) {
    Expr* value = Rewrite(match.value);
    std::vector<ir::Clause> clauses;
    for (const ir::Clause& clause : match.clauses) {
      std::vector<Binding> declared;
      CheckPattern(*clause.pattern, match.value->type, declared);
      ir::Pattern* pattern = RewritePattern(*clause.pattern);
      Expr* body = RewriteAt(place, clause.body);
      clauses.push_back({pattern, MakeLets(arena_, declared, body), clause.span});
    }
    return At(match.span).Match(value, std::move(clauses), match.is_complete, place.type);
  }

  // A pattern variable whose annotation is more precise than the matched value is bound to the checked value.
  void CheckPattern(const ir::Pattern& pattern, const Type* type, std::vector<Binding>& declared) {
    WithStack([&] {
      if (pattern.kind == ir::PatternKind::kVar) {
        Place place{pattern.var->type, "the value of `%", pattern.var->name};
        if (Prove(type, place.type) == Proof::kProven) return;
        ir::Var* matched = At(pattern.var->span).Var(pattern.var->name, type);
        renamed_[pattern.var] = matched;
        declared.push_back({pattern.var, Checked(At(pattern.span).Use(matched), place), pattern.span});
        return;
      }
      if (pattern.fields.empty()) return;
      const auto* tuple = DynCast<ir::TupleType>(type);
      const std::vector<const Type*> fields =
          tuple != nullptr ? tuple->fields : ir::FieldTypes(arena_, *pattern.constructor, *DynCast<ir::AdtType>(type));
      for (size_t i = 0; i < pattern.fields.size(); ++i) {
        if (pattern.fields[i]->kind == ir::PatternKind::kWildcard) continue;
        CheckPattern(*pattern.fields[i], fields[i], declared);
      }
    });
  }

  // `value` at `place`.
  Expr* Checked(Expr* value, const Place& place) {
    if (place.type == nullptr) return value;
    switch (Prove(value->type, place.type)) {
      case Proof::kProven: return value;
      case Proof::kHidden: Warn(value, place, "only tensors and tuples of them are"); return value;
      case Proof::kCheckable: break;
    }
    if (const auto* tuple = DynCast<ir::TupleType>(place.type)) return CheckedTuple(value, *tuple, place);
    const auto& to = *DynCast<ir::TensorType>(place.type);
    for (size_t axis = 0; axis < to.shape.dims.size(); ++axis) {
      const auto& from = *DynCast<ir::TensorType>(value->type);
      const Dim& declared = to.shape.dims[axis];
      if (!IsUnproven(from.shape.dims[axis], declared)) continue;
      if (!IsArithmeticOf(declared, [&](const Dim& leaf) {
            return leaf.kind() == DimKind::kVar && FindWitness(leaf.id()) != nullptr;
          })) {
        Warn(value, place, absl::StrCat("no parameter has an axis that says what `", declared.ToString(), "` is"));
        continue;
      }
      Dims dims = from.shape.dims;
      dims[axis] = declared;
      ir::Attrs attrs;
      attrs.Set("axis", ir::AttrValue(static_cast<int64_t>(axis)));
      attrs.Set("what", ir::AttrValue(ops::DeclaredExtentText(axis, place.Text(), declared)));
      const Type* type = arena_.New<ir::TensorType>(ir::ShapeTerm::Of(std::move(dims)), from.dtype);
      const ir::Builder at = At(value->span);
      value = at.CallOp(ops::FindOp("check_extent"), {value, Extent(declared, at)}, std::move(attrs), type);
      ++num_checks_;
    }
    return value;
  }

  Expr* CheckedTuple(Expr* value, const ir::TupleType& to, const Place& place) {
    const ir::Builder at = At(value->span);
    std::vector<Binding> chain;
    ir::Var* var = at.Bind("tuple", value, chain)->var;
    std::vector<Expr*> fields;
    for (uint32_t i = 0; i < to.fields.size(); ++i) {
      fields.push_back(Checked(at.Project(at.Use(var), i), place.With(to.fields[i])));
    }
    return MakeLets(arena_, chain, at.Tuple(std::move(fields), place.type));
  }

  // Returns an int64 scalar. REQUIRES: each name in `dim` has a witness.
  Expr* Extent(const Dim& dim, const ir::Builder& at) {
    if (dim.is_const()) return at.Constant(Literal::ScalarInt(kInt64, dim.constant()));
    if (dim.is_binary()) {
      return ops::BuildCall(at, OperatorOf(dim.kind()), {Extent(dim.lhs(), at), Extent(dim.rhs(), at)});
    }
    const Witness& witness = *FindWitness(dim.id());
    Expr* data = at.Use(witness.var);
    for (uint32_t index : witness.path) data = at.Project(data, index);
    Expr* extent = ops::BuildCall(at, "extent", {data}, {{"axis", ir::AttrValue(witness.axis)}});
    return witness.offset == Dim(0) ? extent : ops::BuildCall(at, "add", {extent, Extent(witness.offset, at)});
  }

  static std::string_view OperatorOf(DimKind kind) {
    switch (kind) {
      case DimKind::kAdd: return "add";
      case DimKind::kSub: return "subtract";
      case DimKind::kMul: return "multiply";
      case DimKind::kFloorDiv: return "floor_divide";
      case DimKind::kFloorMod: return "floor_mod";
      case DimKind::kMin: return "minimum";
      case DimKind::kMax: return "maximum";
      case DimKind::kConst:
      case DimKind::kAny:
      case DimKind::kVar:
      case DimKind::kHole:
      case DimKind::kBroadcast: RVM_UNREACHABLE("an extent is declared by something else than arithmetic");
    }
  }

  // Warns once per source position, not once per instance of a polymorphic function.
  void Warn(const Expr* value, const Place& place, std::string_view why) {
    if (!warned_.insert({value->span.source, value->span.begin}).second) return;
    diagnostics_.Warning(value->span, diagnostics::DiagnosticKind::kUncheckedExtent,
                         absl::StrCat(place.Text(), " has type `", ir::TypeToString(value->type), "` and is declared `",
                                      ir::TypeToString(place.type), "`, which is not checked: ", Abseil(why)));
  }

  diagnostics::Diagnostics& diagnostics_;
  Place next_;                                                 // of the expression that is rewritten next
  std::vector<Place> places_;                                  // of those around it
  absl::flat_hash_map<int64_t, Witness> exact_, shifted_;      // by name, in scope
  absl::flat_hash_map<const ir::Var*, ir::Var*> renamed_;      // variables of patterns
  absl::flat_hash_set<std::pair<uint32_t, uint32_t>> warned_;  // by place
  size_t num_checks_ = 0;
};

// No caller in the program proves the extents of an entry's arguments.
void WarnOfHiddenExtents(const ir::GlobalFunction& entry, PassContext& context) {
  for (const ir::Var* param : entry.function->params) {
    if (!HidesNamedExtents(param->type)) continue;
    context.diagnostics.Warning(
        param->span, diagnostics::DiagnosticKind::kUncheckedExtent,
        absl::StrCat(
            "`%", param->name, "` of an entry is declared `", ir::TypeToString(param->type),
            "`, which is not checked: only tensors and tuples of them are; write `?` and check what is inside"));
  }
}

absl::StatusOr<ir::Module> CheckExtents(const ir::Module& module, PassContext& context) {
  std::vector<ir::GlobalFunction> functions = module.functions;
  Checker checker(*module.arena, context.diagnostics);
  for (ir::GlobalFunction& global : functions) {
    if (ir::Function* checked = checker.Check(global)) global.function = checked;
  }
  for (const std::string& entry : context.entries) {
    if (const ir::GlobalFunction* global = module.FindFunction(entry)) WarnOfHiddenExtents(*global, context);
  }
  return WithFunctions(module, std::move(functions));
}

}  // namespace

const Pass kCheckExtents = {.name = "check_extents",
                            .summary = "checks of declared extents that types do not prove",
                            .run = CheckExtents,
                            .keeps_effect_order = true};

}  // namespace rvm::passes
