// Interpolation of images at computed coordinates.
#ifndef RVM_COMPILER_OPS_FAMILIES_SAMPLING_H_
#define RVM_COMPILER_OPS_FAMILIES_SAMPLING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/te/tensor.h"

namespace rvm::ops {

// Returns the dtype in which coordinates and weights for data of `dtype` are computed.
DataType CoordinateType(DataType dtype);

enum class Outside : uint8_t { kRepeatsEdge, kIsZero };

// Data at `at`, but along each of `axes` interpolated between the two elements around its coordinate.
te::Expr Bilinear(const te::Tensor& data, std::vector<te::Expr> at, std::span<const size_t> axes,
                  std::span<const te::Expr> coordinates, Outside outside);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_SAMPLING_H_
