#include "compiler/ops/element_cost.h"

#include <vector>

#include "compiler/ops/op_def.h"
#include "kernels/te/expr_pool.h"

namespace rvm::ops {

int64_t ElementCost(const ir::Call& call) {
  auto spec = [](const ir::Expr* expr) {
    const auto& type = *ir::DynCast<ir::TensorType>(expr->type);
    return te::TensorSpec{type.dtype.dtype, type.shape.dims};
  };
  std::vector<te::Tensor> inputs;
  for (const ir::Expr* arg : call.args) {
    const te::TensorSpec of = spec(arg);
    inputs.push_back(te::Input(static_cast<int64_t>(inputs.size()), "x", of.dtype, of.dims));
  }
  const std::vector<te::TensorSpec> results = {spec(&call)};
  int64_t cost = 0;
  for (const te::Tensor& result : ir::OpCallee(&call)->compute(ComputeContext(inputs, call.attrs, results))) {
    for (const te::ExprNode* node : te::Postorder({result->body})) cost += te::OperationCost(*node);
  }
  return cost;
}

}  // namespace rvm::ops
