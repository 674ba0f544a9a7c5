// Brings pairs of factors of integer products next to each other.
#ifndef RVM_KERNELS_SCHEDULE_DEPTH_PAIRS_H_
#define RVM_KERNELS_SCHEDULE_DEPTH_PAIRS_H_

#include <vector>

#include "kernels/te/tensor.h"

namespace rvm::schedule {

// For sums in int32 of products of a tensor and a constant, both of integers that fit 16 bits, whose tiles take two
// positions of the innermost depth axis in one step (Tile::group). Where these are not neighbours in the tensor, as the
// channels of an image in NCHW are not, or are of an odd number, as the columns of a 3x3 filter are, the depth is read
// from a copy with two channels innermost; where channels are innermost anyway, they become the innermost depth axis.
te::Computation PairDepth(const te::Computation& computation, const std::vector<bool>& constant_inputs);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_DEPTH_PAIRS_H_
