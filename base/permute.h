// Constants with their axes in another order.
#ifndef RVM_BASE_PERMUTE_H_
#define RVM_BASE_PERMUTE_H_

#include <cstdint>
#include <span>

#include "base/literal.h"

namespace rvm {

// Returns the elements with the axes in another order: axis i of the result is axis `axes[i]` of the literal.
// REQUIRES: a permutation of its axes.
Literal Permuted(const Literal& literal, std::span<const int64_t> axes);

}  // namespace rvm

#endif  // RVM_BASE_PERMUTE_H_
