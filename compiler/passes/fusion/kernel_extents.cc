#include "compiler/passes/fusion/kernel_extents.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dim_size.h"
#include "compiler/ops/derive_type.h"
#include "compiler/ops/op_def.h"

namespace rvm::passes {
namespace {

// Maximum size of all extents and checks of a kernel together: it adds its results up to the size of a workspace.
constexpr int kMaxKernelNodes = 2048;

// Returns the size of a dim; kMaxKernelNodes + 1 if it alone is too large.
int NodesOf(const Dim& dim) {
  int count = CountDimNodes(dim, kMaxDerivedDimNodes);
  return count > kMaxDerivedDimNodes ? kMaxKernelNodes + 1 : count;
}

int NodesOf(const ir::Type* type) {
  int nodes = 0;
  if (const auto* tuple = ir::DynCast<ir::TupleType>(type)) {
    for (const ir::Type* field : tuple->fields) nodes += NodesOf(field);
  } else if (const auto* tensor = ir::DynCast<ir::TensorType>(type)) {
    for (const Dim& dim : tensor->shape.dims) nodes += NodesOf(dim);
  }
  return nodes;
}

}  // namespace

Dim KernelExtents::SymbolFor(const Dim& dim) {
  std::string text = CanonicalText(dim);
  if (text.empty()) return Symbol();
  auto [it, added] = symbols_.try_emplace(std::move(text));
  if (added) it->second = Symbol();
  return it->second;
}

const ir::Type* KernelExtents::OverSymbols(const ir::Type* type) {
  if (const auto* tuple = ir::DynCast<ir::TupleType>(type)) {
    std::vector<const ir::Type*> fields;
    for (const ir::Type* field : tuple->fields) fields.push_back(OverSymbols(field));
    return arena_.New<ir::TupleType>(std::move(fields));
  }
  const auto* tensor = ir::DynCast<ir::TensorType>(type);
  if (tensor == nullptr) return type;
  Dims dims;
  for (const Dim& dim : tensor->shape.dims) {
    dims.push_back(dim.is_const() || dim.kind() == DimKind::kVar ? dim : SymbolFor(dim));
  }
  return ir::MakeTensorType(arena_, std::move(dims), tensor->dtype.dtype);
}

const ir::Type* KernelExtents::TypeOf(const ir::Expr* atom) {
  if (const auto* tuple = ir::DynCast<ir::Tuple>(atom)) {
    std::vector<const ir::Type*> fields;
    for (const ir::Expr* field : tuple->fields) fields.push_back(TypeOf(field));
    return arena_.New<ir::TupleType>(std::move(fields));
  }
  const auto* use = ir::DynCast<ir::VarExpr>(atom);
  if (use == nullptr) return atom->type;
  auto renamed = renamed_.find(use->var);
  auto [it, added] = types_.try_emplace(renamed == renamed_.end() ? use->var : renamed->second);
  if (added) it->second = OverSymbols(atom->type);
  return it->second;
}

// Returns the result of the call over symbols, or null if its operator refuses; `nodes`: the size of that and of its
// checks.
const ir::Type* KernelExtents::ResultOf(const FusionStep& step, int& nodes) {
  std::vector<const ir::Type*> args;
  std::vector<const Literal*> values;
  for (const ir::Expr* arg : step.op->args) {
    args.push_back(TypeOf(arg));
    const auto* constant = ir::DynCast<ir::Constant>(arg);
    values.push_back(constant == nullptr ? nullptr : &constant->literal);
  }
  absl::StatusOr<ops::DerivedResult> derived = ops::DeriveResult(*ir::OpCallee(step.op), step.op->attrs, args, values,
                                                                 arena_, [&](size_t, int64_t) { return Value(); });
  if (!derived.ok()) return nullptr;  // lowering reports it
  nodes = NodesOf(derived->result);
  for (const ops::DimCheck& check : derived->checks) nodes += NodesOf(check.a) + NodesOf(check.b);
  return derived->result;
}

void KernelExtents::Define(const FusionStep& step, const ir::Type* result) {
  if (step.var != nullptr) types_[step.var] = result;
  const auto* tuple = ir::DynCast<ir::TupleType>(result);
  for (size_t i = 0; tuple != nullptr && i < step.outputs.size(); ++i) {
    if (step.outputs[i].var != nullptr) types_[step.outputs[i].var] = tuple->fields[i];
  }
}

bool KernelExtents::Add(const FusionStep& step) {
  int nodes = 0;
  const ir::Type* result = ResultOf(step, nodes);
  if (result == nullptr) return true;
  if (!is_empty_ && nodes_ + nodes > kMaxKernelNodes) return false;
  nodes_ += nodes;
  is_empty_ = false;
  Define(step, result);
  return true;
}

void KernelExtents::Clear() {
  types_.clear();
  symbols_.clear();
  nodes_ = 0;
  is_empty_ = true;
}

}  // namespace rvm::passes
