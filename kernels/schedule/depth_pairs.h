// Brings factors of integer products that are multiplied in one step next to each other.
#ifndef RVM_KERNELS_SCHEDULE_DEPTH_PAIRS_H_
#define RVM_KERNELS_SCHEDULE_DEPTH_PAIRS_H_

#include <vector>

#include "kernels/schedule/target.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

// For sums in int32 of products of a tensor and a constant, both of integers that fit 16 bits, whose tiles take two
// positions of the innermost depth axis in one step, or four of bytes (Tile::depth_step). Where these are not
// neighbours in the tensor, as the channels of an image in NCHW are not, or do not fill steps, as the columns of a 3x3
// filter do not, the depth is read from a copy with so many channels innermost; where channels are innermost anyway,
// they become the innermost depth axis.
te::Computation PairDepth(const te::Computation& computation, const std::vector<bool>& constant_inputs,
                          const Target& target);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_DEPTH_PAIRS_H_
