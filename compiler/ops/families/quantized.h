// Type rules and expressions of operators on quantised tensors.
//
// An integer q stands for the real number (q - zero_point) * scale. Scales and zero points are arguments:
// scalars, or vectors with an element per channel. They need not be constant.
#ifndef RVM_COMPILER_OPS_FAMILIES_QUANTIZED_H_
#define RVM_COMPILER_OPS_FAMILIES_QUANTIZED_H_

#include <optional>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

// Returns whether argument `data` is an integer tensor (not bool). Reports an error if not.
bool IsQuantized(TypeContext& context, const std::vector<const ir::TensorType*>& args, size_t data);
// Returns whether a scale or zero point of this shape applies to all channels: a scalar, or a vector of one element.
bool IsOne(const Dims& dims);
// Returns whether arguments `scale` and `zero_point` are a floating-point and an int32 tensor of one element each, or
// of `channels` elements if that is given. Reports an error if not.
bool AreParameters(TypeContext& context, const std::vector<const ir::TensorType*>& args, size_t scale,
                   size_t zero_point, const std::optional<Dim>& channels = std::nullopt);

// Returns the parameter for index `channel`.
te::Expr ParameterAt(const te::Tensor& parameter, const te::Expr& channel);

// data - zero_point as int32; the zero point may vary along `axis`.
te::Tensor Centred(const te::Tensor& data, const te::Tensor& zero_point, size_t axis);

// `value` (int64) clamped to the range of `dtype`.
te::Expr Saturated(const te::Expr& value, DataType dtype);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_QUANTIZED_H_
