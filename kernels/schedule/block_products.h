// Products of bytes in blocks of the depth, each of which has a scale: of rows that are rounded to int8, and of
// constants of a few bits.
#ifndef RVM_KERNELS_SCHEDULE_BLOCK_PRODUCTS_H_
#define RVM_KERNELS_SCHEDULE_BLOCK_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/schedule/target.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

// Writes sums of products of
//   cast(row, float32) * row_scale    with row of int8, and
//   (cast(code, float32) - zero) * scale    with code of uint8, read from constants, or
//   cast(code, float32) * scale - minimum
// where scales, zero points and minima depend on none but the first axes of the sum, as
//   row_scale * scale * (cast(row, float32) * cast(code, float32) - row_sum / size * zero)    or
//   row_scale * (scale * (cast(row, float32) * cast(code, float32)) - row_sum / size * minimum)
// where `size` is the number of positions of the other axes, a block. The rows are a tensor of bytes, in the order in
// which tiles read them. A tile sums up the products of a block as integers, and scales the sum.
// REQUIRES: factors that are computed from constants alone are expressions of these (ReadStoredFactors).
te::Computation MultiplyBlocks(const te::Computation& computation, const Target& target);

// The parts of such a sum.
struct BlockProduct {
  te::Expr row, code, row_scale, scale;
  te::Expr row_sum;          // of a block; null: there is neither of the next two
  te::Expr zero, minimum;    // null: 0
  size_t outer_axes = 0;     // the axes of the sum that number blocks
  int64_t depth_step = 0;    // see Tile::depth_step; it divides the innermost extent
  bool sums_narrow = false;  // see Tile::Blocks
  int64_t most_steps = 0;    // how many steps the narrow sums hold
};

// Returns the parts of a sum that MultiplyBlocks wrote; nullopt for others.
std::optional<BlockProduct> AsBlockProduct(const te::ExprNode& sum, const Target& target);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BLOCK_PRODUCTS_H_
