// The sort that kernels use: int64 keys in memory provided by the caller.
#ifndef RVM_BASE_ORDER_KEYS_H_
#define RVM_BASE_ORDER_KEYS_H_

#include <cstdint>

namespace rvm {

// Sorts n keys stably in O(n). `block` holds 4 * n numbers: the keys, a number that moves with each key, and scratch.
// Returns false if it ended early because another thread set *stop to a nonzero value. REQUIRES: n >= 0.
bool OrderKeys(int64_t* block, int64_t n, const volatile int32_t* stop);

// Puts only the first `first` keys in order; what follows them is unspecified. O(n), and mostly one comparison per key
// if `first` is small and the keys are in random order. REQUIRES: 0 <= first <= n.
bool OrderFirstKeys(int64_t* block, int64_t n, int64_t first, const volatile int32_t* stop);

}  // namespace rvm

#endif  // RVM_BASE_ORDER_KEYS_H_
