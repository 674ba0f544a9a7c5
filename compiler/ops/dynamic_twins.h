// Computations shared by operators and their `dyn.` variants, which take the shape of the result as an argument instead
// of an attribute.
#ifndef RVM_COMPILER_OPS_DYNAMIC_TWINS_H_
#define RVM_COMPILER_OPS_DYNAMIC_TWINS_H_

#include <span>
#include <vector>

#include "compiler/ops/op_def.h"
#include "kernels/te/tensor.h"

namespace rvm::ops {

template <int value>
std::vector<te::Tensor> ComputeFill(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  return {te::ComputeTensor("fill", out.dtype, out.dims,
                            [&](std::span<const te::Expr>) { return te::Const(out.dtype, value); })};
}

// Fills the result with the scalar that is argument `input`.
template <size_t input>
std::vector<te::Tensor> ComputeFull(const ComputeContext& context) {
  const te::TensorSpec& out = context.output();
  return {te::ComputeTensor("full", out.dtype, out.dims,
                            [&](std::span<const te::Expr>) { return te::Cast(out.dtype, context.input(input)({})); })};
}

std::vector<te::Tensor> ComputeBroadcast(const ComputeContext& context);
std::vector<te::Tensor> ComputeTile(const ComputeContext& context);
std::vector<te::Tensor> ComputeOneHot(const ComputeContext& context);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_DYNAMIC_TWINS_H_
