// Bounds of dims. Variables are extents, which are at least 0, but for those of Dim::Value.
#ifndef RVM_BASE_DIM_BOUNDS_H_
#define RVM_BASE_DIM_BOUNDS_H_

#include <cstdint>
#include <optional>

#include "base/dim.h"

namespace rvm {

// A number that `dim` is never below; nullopt if none is known. A `?` has no bounds.
std::optional<int64_t> LowerBound(const Dim& dim);
// A number that `dim` is never above; nullopt if none is known.
std::optional<int64_t> UpperBound(const Dim& dim);

// Returns an equal dim in which terms that cancel are left out: m for (n + m) - n. `dim` itself if that is no smaller.
Dim WithoutCancelled(const Dim& dim);

// Returns whether `dim` is at least 0.
bool IsNatural(const Dim& dim);
// Returns `dim`, or 0 where it is below 0: max(dim, 0), without the `max` if `dim` is known to be at least 0.
Dim ClampedToNatural(const Dim& dim);
// Returns whether a <= b; false if that is not known.
bool IsAtMost(const Dim& a, const Dim& b);
// Returns whether a == b; nullopt if that depends on the values of the variables.
std::optional<bool> AreEqual(const Dim& a, const Dim& b);
// Returns whether `dim` differs from `value`, by its bounds or by a divisor: 2 * n is never 1.
bool IsNever(const Dim& dim, int64_t value);

}  // namespace rvm

#endif  // RVM_BASE_DIM_BOUNDS_H_
