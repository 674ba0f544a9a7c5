// Panels: the layout of the vector operand of a tile.
#ifndef RVM_KERNELS_SCHEDULE_LAYOUT_H_
#define RVM_KERNELS_SCHEDULE_LAYOUT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "base/literal.h"

namespace rvm::schedule {

// An axis of a tensor, with `stride` elements from one index to the next.
struct StridedAxis {
  int64_t extent;
  int64_t stride;
  bool operator==(const StridedAxis&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const StridedAxis& axis) {
    return H::combine(std::move(h), axis.extent, axis.stride);
  }
};

// The layout in which a kernel reads a constant input: the axes of the constant, in any order, become
// [outer..., ceil(column / panel), depth..., panel], columns padded with zeros. Positions of the innermost depth axis
// are side by side in groups: [outer..., ceil(column / panel), depth..., ceil(innermost / depth_step), panel,
// depth_step].
struct PackedLayout {
  std::vector<StridedAxis> outer;
  StridedAxis column;
  std::vector<StridedAxis> depth;
  int64_t panel = 1;       // columns in a panel
  int64_t depth_step = 1;  // positions of the innermost depth axis side by side; see Tile::depth_step

  bool operator==(const PackedLayout&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const PackedLayout& layout) {
    return H::combine(std::move(h), layout.outer, layout.column, layout.depth, layout.panel, layout.depth_step);
  }
};

// Returns the packed constant, of shape [outer * panels, depth, panel], where depth includes the padding of groups.
Literal Pack(const PackedLayout& layout, const Literal& constant);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_LAYOUT_H_
