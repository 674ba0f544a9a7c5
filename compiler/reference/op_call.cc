#include "compiler/reference/op_call.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "compiler/ops/derive_type.h"
#include "kernels/te/evaluate.h"

namespace rvm::reference {

bool OpCall::Fits(std::span<const Literal> args) const {
  if (!prepared_ || prepared_->dtypes.size() != args.size()) return false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].dtype() != prepared_->dtypes[i] || args[i].shape() != prepared_->shapes[i]) return false;
  }
  return true;
}

void OpCall::Prepare(std::span<const Literal> args) {
  prepared_.emplace();
  ir::Arena arena;
  te::Computation computation;
  std::vector<const ir::Type*> types;
  for (const Literal& arg : args) {
    prepared_->dtypes.push_back(arg.dtype());
    prepared_->shapes.push_back(arg.shape());
    Dims dims = ToDims(arg.shape());
    computation.inputs.push_back(te::Input(static_cast<int64_t>(types.size()), "in", arg.dtype(), dims));
    types.push_back(ir::MakeTensorType(arena, dims, arg.dtype()));
  }
  // The relation sees no values; where it asks for one, or leaves an extent or a check open, types are not enough.
  bool needs_values = !op_->count_op.empty();
  std::vector<const Literal*> values(args.size(), nullptr);
  absl::StatusOr<ops::DerivedResult> derived =
      ops::DeriveResult(*op_, *attrs_, types, values, arena, [&](size_t, int64_t) {
        needs_values = true;
        return Dim::Any();
      });
  if (!derived.ok() || needs_values || !derived->checks.empty()) return;
  const auto* tuple = ir::DynCast<ir::TupleType>(derived->result);
  std::vector<te::TensorSpec> specs;
  for (const ir::Type* type : tuple != nullptr ? tuple->fields : std::vector<const ir::Type*>{derived->result}) {
    const auto* tensor = ir::DynCast<ir::TensorType>(type);
    if (!IsStorable(tensor->dtype.dtype) || !StaticShape(tensor->shape.dims)) return;
    specs.push_back({tensor->dtype.dtype, tensor->shape.dims});
  }
  computation.outputs = op_->compute(ops::ComputeContext(computation.inputs, *attrs_, specs));
  prepared_->computation = std::move(computation);
  prepared_->has_tuple_result = tuple != nullptr;
}

absl::StatusOr<std::optional<std::vector<Literal>>> OpCall::Call(std::span<const Literal> args) {
  if (!Fits(args)) Prepare(args);
  if (!prepared_->computation) return std::nullopt;
  RVM_ASSIGN_OR_RETURN(std::vector<Literal> results, te::Evaluate(*prepared_->computation, args));
  return results;
}

}  // namespace rvm::reference
