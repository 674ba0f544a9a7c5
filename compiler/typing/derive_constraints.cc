// Inference of constraints.
//
// Where an operator is applied to a type parameter and the type of its result depends on the argument for that
// parameter, the enclosing function gets a type parameter for the result, and the operator's relation as a constraint,
// which its callers solve. `def @f[s: Shape](%x: Tensor[s, float32]) { mean(%x, axis=[0]) }` is typed as
//
//   def @f[s: Shape, mean_shape: Shape](%x: Tensor[s, float32]) -> Tensor[mean_shape, float32]
//     where mean(Tensor[s, float32], Tensor[mean_shape, float32], axis=[0])
//
// as in M. P. Jones, "A theory of qualified types" (1994), with relations of operators in place of type classes.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "compiler/ops/generic_type.h"
#include "compiler/ops/op_def.h"
#include "compiler/typing/checker.h"

namespace rvm::typing {

using ir::DynCast;
using ir::Type;
using ir::TypeArg;

// Adds to the parameters and constraints of one function.
class Checker::ConstraintDeriver {
 public:
  ConstraintDeriver(Solver& solver, ir::Function& function) : solver_(solver), function_(function) {}

  bool CanDerive(const RelationQueue::Dependent& dependent) const {
    for (const ir::TypeParam* param : ops::TensorParams(dependent.args)) {
      const auto& own = function_.type_params;
      if (std::find(own.begin(), own.end(), param) == own.end()) return false;  // of a function literal
    }
    return !ReadsConstants(*dependent.relation);
  }

  // Returns the result of a relation in terms of the function's type parameters.
  const Type* ResultOf(const RelationQueue::Dependent& dependent) {
    const Relation& relation = *dependent.relation;
    for (const ir::TypeConstraint& known : function_.constraints) {
      bool same = known.relation == relation.name && known.attrs == *relation.attrs &&
                  known.args.size() == dependent.args.size() + 1 &&
                  std::equal(dependent.args.begin(), dependent.args.end(), known.args.begin(), ir::TypesEqual);
      if (same) return known.args.back();
    }
    const Type* result = WithParams(dependent.form, relation.name);
    std::vector<const Type*> args = dependent.args;
    args.push_back(result);
    ir::Span span = relation.is_constraint ? relation.declared_at : relation.span;
    function_.constraints.push_back({std::string(relation.name), std::move(args), span, *relation.attrs});
    return result;
  }

 private:
  // A constraint has no values for its relation to read.
  static bool ReadsConstants(const Relation& relation) {
    const ops::OpDef* op = ops::FindOp(relation.name);
    if (op == nullptr || relation.call == nullptr || relation.is_constraint) return false;
    for (size_t i = 0; i < relation.call->args.size(); ++i) {
      if (ops::DecidesShape(*op, i) && relation.call->args[i]->expr_kind == ir::ExprKind::kConstant) return true;
    }
    return false;
  }

  // `form`, a new parameter for each hole.
  const Type* WithParams(const Type* form, std::string_view relation) {
    if (const auto* tuple = DynCast<ir::TupleType>(form)) {
      std::vector<const Type*> fields;
      for (const Type* field : tuple->fields) fields.push_back(WithParams(field, relation));
      return solver_.arena().New<ir::TupleType>(std::move(fields));
    }
    const auto& tensor = *DynCast<ir::TensorType>(form);
    ir::ShapeTerm shape = tensor.shape;
    ir::DTypeTerm dtype = tensor.dtype;
    if (shape.form == ir::ShapeTerm::Form::kHole) {
      shape = ir::ShapeTerm::OfParam(NewParam(relation, "_shape", ir::Kind::kShape));
    }
    if (dtype.form == ir::DTypeTerm::Form::kHole) {
      dtype = ir::DTypeTerm::OfParam(NewParam(relation, "_dtype", ir::Kind::kBaseType));
    }
    return solver_.arena().New<ir::TensorType>(std::move(shape), dtype);
  }

  // `mean_shape`, `mean_shape2`, ...
  const ir::TypeParam* NewParam(std::string_view relation, std::string_view suffix, ir::Kind kind) {
    size_t dot = relation.rfind('.');
    relation.remove_prefix(dot == std::string_view::npos ? 0 : dot + 1);
    std::string stem = absl::StrCat(Abseil(relation), Abseil(suffix));
    int& count = counts_[stem];
    std::string name;
    do {
      ++count;
      name = count == 1 ? stem : absl::StrCat(stem, count);
    } while (std::any_of(function_.type_params.begin(), function_.type_params.end(),
                         [&](const ir::TypeParam* other) { return other->name == name; }));
    auto* param = solver_.arena().New<ir::TypeParam>();
    *param = {solver_.arena().NextId(), std::move(name), kind, function_.span};
    function_.type_params.push_back(param);
    return param;
  }

  Solver& solver_;
  ir::Function& function_;
  absl::flat_hash_map<std::string, int> counts_;
};

// REQUIRES: the body of `global` was checked, and nothing after it.
void Checker::DeriveConstraints(Global& global) {
  ir::Function& function = *global.global->function;
  ConstraintDeriver deriver(solver_, function);
  size_t num_params = function.type_params.size();
  bool may_derive = IsUsedAtOwnParams(global);
  while (std::optional<RelationQueue::Dependent> dependent = relations_.TakeDependent()) {
    if (!may_derive || !deriver.CanDerive(*dependent)) continue;
    relations_.Determine(dependent->index, deriver.ResultOf(*dependent));
  }
  if (function.type_params.size() == num_params) return;
  global.type = solver_.arena().New<ir::FuncType>(function.type_params, global.type->params, global.type->result,
                                                  function.constraints);
  function.type = global.type;
  for (ir::GlobalExpr* use : global.early_uses) {
    for (size_t i = num_params; i < function.type_params.size(); ++i) {
      use->type_args.push_back(ir::OwnArg(solver_.arena(), *function.type_params[i]));
    }
  }
}

// Returns whether all uses so far are recursive calls with the function's own type parameters.
bool Checker::IsUsedAtOwnParams(const Global& global) {
  if (global.is_used_elsewhere) return false;
  const std::vector<const ir::TypeParam*>& params = global.type->type_params;
  for (const ir::GlobalExpr* use : global.early_uses) {
    for (size_t i = 0; i < params.size(); ++i) {
      if (!ir::TypeArgsEqual(solver_.Resolve(use->type_args[i]), ir::OwnArg(solver_.arena(), *params[i]))) return false;
    }
  }
  return true;
}

}  // namespace rvm::typing
