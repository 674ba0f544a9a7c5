#include "compiler/ops/gradients/pullback.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

// Returns whether two tensors are known to have the same shape whenever they exist.
bool ProvablySameShape(const ir::TensorType& a, const ir::TensorType& b) {
  const Dims &x = a.shape.dims, &y = b.shape.dims;
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (ContainsAny(x[i]) || ContainsAny(y[i]) || CompareDims(x[i], y[i]) != DimEquality::kEqual) return false;
  }
  return true;
}

}  // namespace

Term Pullback::x(size_t arg, size_t field) {
  Operand& operand = arguments_[arg][field];
  if (operand.var == nullptr) operand.var = Bind(at_.Constant(operand.constant->literal));
  return {this, operand.var};
}

const ir::TensorType& Pullback::type(size_t arg, size_t field) {
  const Operand& operand = arguments_[arg][field];
  return *ir::DynCast<ir::TensorType>(operand.var != nullptr ? operand.var->type : operand.constant->type);
}

void Pullback::Give(size_t arg, size_t field, Term share) {
  const ir::TensorType& wanted = type(arg, field);
  if (!wanted.dtype.dtype.is_float()) return;
  share = Cast(share, wanted.dtype);
  if (!ProvablySameShape(share.type(), wanted)) share = Call("collapse_sum_like", {share, x(arg, field)});
  ir::Var*& sum = shares_[arg][field];
  sum = sum == nullptr ? share.var() : (Term(this, sum) + share).var();
}

// Reverses a chain of calls of operators, and of the tuples that they take and give.
class Pullback::Through {
 public:
  Through(Pullback& outer, std::vector<ir::Binding> chain) : outer_(outer), chain_(std::move(chain)) {}

  void Activate(const ir::Var* var) { values_[var].is_active = true; }
  // Passes the adjoint of `var` on to what is active.
  void Reverse(const ir::Var* var, ir::Var* adjoint) {
    for (const ir::Binding& binding : chain_) Visit(binding);
    values_[var].adjoint = adjoint;
    for (size_t i = chain_.size(); i > 0 && outer_.refusal_.empty(); --i) {
      if (values_[chain_[i - 1].var].is_active) PassOn(chain_[i - 1]);
    }
  }
  // Null: none.
  ir::Var* adjoint(const ir::Var* var) { return values_[var].adjoint; }

 private:
  struct Value {
    bool is_active = false;
    ir::Var* adjoint = nullptr;
    std::vector<ir::Var*> fields;  // of a tuple
  };

  static ir::Var* VarOf(const ir::Expr* expr) { return ir::DynCast<ir::VarExpr>(expr)->var; }
  static const OpDef& OpOf(const ir::Call& call) { return *ir::DynCast<ir::OpExpr>(call.callee)->op; }

  // Finds whether the value depends on what is active, and the fields of tuples.
  void Visit(const ir::Binding& binding) {
    Value& value = values_[binding.var];
    if (const auto* tuple = ir::DynCast<ir::Tuple>(binding.value)) {
      for (const ir::Expr* field : tuple->fields) {
        value.fields.push_back(VarOf(field));
        value.is_active = value.is_active || values_[VarOf(field)].is_active;
      }
    } else if (const auto* field = ir::DynCast<ir::Project>(binding.value)) {
      Value& whole = values_[VarOf(field->tuple)];
      whole.fields.resize(ir::DynCast<ir::TupleType>(field->tuple->type)->fields.size());
      whole.fields[field->index] = binding.var;
      value.is_active = whole.is_active;
    } else if (const auto* call = ir::DynCast<ir::Call>(binding.value)) {
      if (OpOf(*call).gradient == NothingFlows) return;
      for (const ir::Expr* arg : call->args) value.is_active = value.is_active || values_[VarOf(arg)].is_active;
    }
    if (const auto* tensor = ir::DynCast<ir::TensorType>(binding.var->type)) {
      value.is_active = value.is_active && tensor->dtype.dtype.is_float();
    }
  }

  void PassOn(const ir::Binding& binding) {
    const auto* call = ir::DynCast<ir::Call>(binding.value);
    if (call == nullptr) return;  // a tuple, whose fields have the adjoints
    std::vector<ir::Var*> results = {binding.var}, adjoints;
    if (binding.var->type->type_kind == ir::TypeKind::kTuple) results = values_[binding.var].fields;
    bool has_adjoint = false;
    for (ir::Var* result : results) {
      adjoints.push_back(result == nullptr ? nullptr : values_[result].adjoint);
      has_adjoint = has_adjoint || adjoints.back() != nullptr;
    }
    if (!has_adjoint) return;
    std::vector<std::vector<Operand>> arguments;
    for (const ir::Expr* arg : call->args) {
      ir::Var* var = VarOf(arg);
      std::vector<Operand>& operands = arguments.emplace_back();
      bool is_tuple = var->type->type_kind == ir::TypeKind::kTuple;
      for (ir::Var* operand : is_tuple ? values_[var].fields : std::vector<ir::Var*>{var})
        operands.push_back({operand});
    }
    const OpDef& op = OpOf(*call);
    RVM_CHECK(op.gradient != nullptr, "a gradient rule is written through an operator that has none");
    Pullback inner(outer_.at_, op.name, call->attrs, arguments, results, adjoints, outer_.chain_);
    op.gradient(inner);
    if (!inner.refusal().empty()) return outer_.Refuse(inner.refusal());
    for (size_t i = 0; i < arguments.size(); ++i) {
      for (size_t j = 0; j < arguments[i].size(); ++j) Add(arguments[i][j].var, inner.share(i, j));
    }
  }

  void Add(const ir::Var* var, ir::Var* share) {
    Value& value = values_[var];
    if (share == nullptr || !value.is_active) return;
    value.adjoint = value.adjoint == nullptr ? share : (Term(&outer_, value.adjoint) + Term(&outer_, share)).var();
  }

  Pullback& outer_;
  std::vector<ir::Binding> chain_;
  std::map<const ir::Var*, Value> values_;
};

void Pullback::GiveThrough(const std::function<Term(const std::vector<Term>& x)>& write) {
  // Variables of their own: a call may have one argument twice.
  std::vector<Term> inputs;
  for (size_t i = 0; i < num_args(); ++i) inputs.emplace_back(this, Bind(at_.Use(x(i).var())));
  auto first = static_cast<std::ptrdiff_t>(chain_.size());
  Term result = write(inputs);
  if (!refusal_.empty()) return;
  Through through(*this, {chain_.begin() + first, chain_.end()});
  for (Term input : inputs) {
    if (input.type().dtype.dtype.is_float()) through.Activate(input.var());
  }
  through.Reverse(result.var(), d().var());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (ir::Var* share = through.adjoint(inputs[i].var())) Give(i, {this, share});
  }
}

Term Pullback::Call(std::string_view op, std::vector<Term> args, ir::Attrs attrs) {
  return {this, Bind(BuildCall(at_, op, Uses(args), std::move(attrs)))};
}

Term Pullback::CallOnTuple(std::string_view op, std::vector<Term> fields, ir::Attrs attrs) {
  ir::Var* tuple = Bind(at_.Tuple(Uses(fields)));
  return {this, Bind(BuildCall(at_, op, {at_.Use(tuple)}, std::move(attrs)))};
}

std::vector<Term> Pullback::CallForTuple(std::string_view op, std::vector<Term> args, ir::Attrs attrs) {
  ir::Var* tuple = Bind(BuildCall(at_, op, Uses(args), std::move(attrs)));
  std::vector<Term> fields;
  for (size_t i = 0; i < ir::DynCast<ir::TupleType>(tuple->type)->fields.size(); ++i) {
    fields.emplace_back(this, Bind(at_.Project(at_.Use(tuple), i)));
  }
  return fields;
}

Term Pullback::Scalar(double value, Term like) {
  return {this, Bind(at_.Constant(Literal::Scalar(like.type().dtype.dtype, value)))};
}

Term Pullback::Int(int64_t value) { return {this, Bind(at_.Constant(Literal::ScalarInt(kInt64, value)))}; }

Term Pullback::Ints(const std::vector<int64_t>& values) {
  Literal literal = Literal::FromValues<int64_t>(kInt64, Shape{static_cast<int64_t>(values.size())},
                                                 std::span<const int64_t>(values));
  return {this, Bind(at_.Constant(std::move(literal)))};
}

std::vector<ir::Expr*> Pullback::Uses(const std::vector<Term>& terms) {
  std::vector<ir::Expr*> uses;
  for (const Term& term : terms) uses.push_back(at_.Use(term.var()));
  return uses;
}

ir::Var* Pullback::Bind(ir::Expr* value) { return at_.Bind("g", value, chain_)->var; }

}  // namespace rvm::ops
