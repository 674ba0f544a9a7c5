// Minimal filtering: a 3x3 convolution by tiles of tile x tile results, with (tile + 2)^2 multiplications for each tile
// and pair of channels instead of 9 tile^2: 4 times fewer for tiles of 4. Source: A. Lavin, S. Gray, Fast Algorithms
// for Convolutional Neural Networks, CVPR 2016; sections 4.1 to 4.3, and the interpolation points 0, 1, -1, 2, -2 for
// tiles of 4.
#ifndef RVM_COMPILER_OPS_FAMILIES_WINOGRAD_H_
#define RVM_COMPILER_OPS_FAMILIES_WINOGRAD_H_

#include <cstdint>

#include "base/literal.h"

namespace rvm::ops {

inline constexpr int64_t kWinogradTaps = 3;

// G filters G^T for every pair of channels, computed in float64: (O, I, 3, 3) becomes (tile + 2, tile + 2, O, I).
// REQUIRES: float32 or float64; a tile of 2 or 4.
Literal TransformedFilters(const Literal& filters, int64_t tile);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_WINOGRAD_H_
