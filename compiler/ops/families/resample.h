// Interpolation of images at new sizes.
//
// The input coordinate of an output position is a quotient of integers, except for crops and given scales. The
// numerator is computed exactly and divided once, so that integral coordinates are exact for all sizes. Given scales
// are divided by in float32 where elements are not interpolated, as PyTorch does.
#ifndef RVM_COMPILER_OPS_FAMILIES_RESAMPLE_H_
#define RVM_COMPILER_OPS_FAMILIES_RESAMPLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/families/window.h"
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
  std::vector<double> scales;  // of each axis of space; empty: the quotients of the extents
  std::vector<te::Expr> roi;   // float64: the begins, then the ends of the axes of space
};

// Returns the positions of the begin and the end of axis `s` of space among the numbers of `roi`: those of all axes of
// `layout`, or of its axes of space. nullopt if their number is neither.
std::optional<std::pair<size_t, size_t>> PlacesInRoi(const Layout& layout, size_t numbers, size_t s);

// Returns the method that an attribute names, or nullopt.
std::optional<Method> MethodOf(const std::string& name);

// Coordinates are computed in float64.
te::Expr Real(te::Expr value);
te::Expr Real(double value);
te::Expr Round(te::UnaryOp op, te::Expr x);

// Input 0 with the spatial axes of its `layout` resized to the extents of the result.
std::vector<te::Tensor> ComputeResized(const ComputeContext& context, const Resize& resize);

// Sets the spatial extents in `dims` to the elements of argument `arg`. Returns false if an error was reported.
bool TakeSize(TypeContext& context, size_t arg, Dims& dims);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_RESAMPLE_H_
