// Images read at computed coordinates, as terms of operators that have gradient rules: those of the coordinates and of
// the images follow.
#ifndef RVM_COMPILER_OPS_GRADIENTS_SAMPLES_H_
#define RVM_COMPILER_OPS_GRADIENTS_SAMPLES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ops/gradients/pullback.h"

namespace rvm::ops {

// Positions read along one axis, and the weight of each. Both are (taps, ...), where ... broadcasts to the shape of the
// samples. Without weights each is 1.
struct Taps {
  Term places;  // int64
  std::optional<Term> weights;
};

// Returns the element at `place`, a floating-point integer.
Taps NearestTap(Term place);
// Returns the two elements around the coordinate.
Taps LinearTaps(Term x);
// Returns the four around it: R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
Taps CubicTaps(Term x, double alpha);
// Gives taps outside of an axis of `extent` elements the weight 0.
Taps InsideOnly(Taps taps, Term extent);

// NC... as N...C, and back.
Term ChannelsLast(Term x);
Term ChannelsFirst(Term x);

// (samples..., C): for each sample the weighted sum of elements of the image `batches` of `images` (N, axes..., C).
// Batches, of int64, broadcast to the shape of the samples. Places outside of the image are clamped.
Term Sampled(Term images, Term batches, const std::vector<Taps>& taps);

// Along `axis` of x, of n elements, the place (int64) of the first greatest one of each of m ranges. `ranges` (..., m,
// n) says which elements a range has; it broadcasts with x, whose `axis` comes last, and one axis more before it.
Term FirstGreatest(Term x, int64_t axis, Term ranges);
// Returns the greatest elements of so many bins along the axes of space of `images`, NC...; the first of equal ones
// counts.
Term GreatestOfBins(Term images, const std::vector<int64_t>& bins);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_GRADIENTS_SAMPLES_H_
