#include "compiler/ops/dynamic_twins.h"

#include <cstddef>

#include "compiler/ops/families/families.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {

std::vector<Tensor> ComputeBroadcast(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  return {te::ComputeTensor("broadcast", out.dtype, out.dims,
                            [&](std::span<const Expr> i) { return data(BroadcastIndices(i, data.dims(), out.dims)); })};
}

std::vector<Tensor> ComputeTile(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  size_t skip = out.dims.size() - data.rank();
  return {te::ComputeTensor("tile", out.dtype, out.dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    for (size_t k = 0; k < data.rank(); ++k) {
      bool whole = data.dims()[k] == out.dims[skip + k];
      at.push_back(whole ? i[skip + k] : te::Binary(BinaryOp::kFloorMod, i[skip + k], te::DimValue(data.dims()[k])));
    }
    return data(at);
  })};
}

std::vector<Tensor> ComputeOneHot(const ComputeContext& context) {
  const Tensor& indices = context.input(0);
  const te::TensorSpec& out = context.output();
  size_t axis = Normal(context.attrs().GetInt("axis"), out.dims.size());
  return {te::ComputeTensor("one_hot", out.dtype, out.dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    at.erase(at.begin() + static_cast<std::ptrdiff_t>(axis));
    return te::Select(Equal(te::Cast(kInt64, indices(at)), i[axis]), te::Cast(out.dtype, context.input(1)({})),
                      te::Cast(out.dtype, context.input(2)({})));
  })};
}

}  // namespace rvm::ops
