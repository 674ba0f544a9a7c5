#include "compiler/ops/pullback.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "compiler/ops/build_call.h"
#include "compiler/ops/gradient_terms.h"

namespace rvm::ops {
namespace {

// Whether two tensors are known to have the same shape whenever they exist.
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
