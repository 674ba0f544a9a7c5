// Images read at other places than their own: what operators that resize share.
//
// An output place reads at a coordinate of the input that is a quotient of integers (but for crops).
// The numerator is computed exactly and divided once, so that a coordinate that is a whole number stays one
// whatever the sizes are.
#ifndef RVM_COMPILER_OPS_RESAMPLE_H_
#define RVM_COMPILER_OPS_RESAMPLE_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rvm::ops {

enum class Method : uint8_t { kNearest, kLinear, kCubic };
enum class Coordinates : uint8_t { kHalfPixel, kAlignCorners, kAsymmetric, kPytorch, kTfHalfPixel, kCrop };
enum class Rounding : uint8_t { kRound, kFloor, kCeil, kPreferFloor, kPreferCeil };

struct Resize {
  Method method = Method::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kRound;
  double alpha = -0.5;
  bool exclude = false;
  double extrapolation = 0;
  std::vector<te::Expr> roi;  // float64
};

// By its name in attributes; nullopt if it is none.
std::optional<Method> MethodOf(const std::string& name);

// Computed coordinates are float64.
te::Expr Real(te::Expr value);
te::Expr Real(double value);
te::Expr Round(te::UnaryOp op, te::Expr x);

// Input 0, the axes of space of its `layout` resized to those of the result.
std::vector<te::Tensor> ComputeResized(const ComputeContext& context, const Resize& resize);

// `dims` with the extents of space that argument `arg` has; false after an error was reported.
bool TakeSize(TypeContext& context, size_t arg, Dims& dims);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_RESAMPLE_H_
