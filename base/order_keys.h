// Sorting as kernels do it: one key type, memory of the caller.
#ifndef RVM_BASE_ORDER_KEYS_H_
#define RVM_BASE_ORDER_KEYS_H_

#include <cstdint>

namespace rvm {

// Sorts n keys, equal ones in the order they have. `block` is 4 * n numbers: the keys, the number that goes with
// each, and scratch. True if all is done; it ends early if another thread makes *stop anything but 0. REQUIRES: n >= 0.
// O(n).
bool OrderKeys(int64_t* block, int64_t n, const volatile int32_t* stop);

}  // namespace rvm

#endif  // RVM_BASE_ORDER_KEYS_H_
