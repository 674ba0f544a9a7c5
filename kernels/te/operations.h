// Counts the arithmetic of a computation, for profiles: how fast was a kernel, given what it had to compute?
#ifndef RVM_KERNELS_TE_OPERATIONS_H_
#define RVM_KERNELS_TE_OPERATIONS_H_

#include "base/dim.h"
#include "kernels/te/tensor.h"

namespace rvm::te {

// Returns the number of arithmetic operations on elements, whatever the schedule: a multiplication, an exponential and
// an addition of a reduction are one each; comparisons, casts, indices and conditions of selections are none. Each
// tensor is computed once. Sorts count nothing, and tensors with an update what the usual number of positions does.
Dim NumOperations(const Computation& computation);

}  // namespace rvm::te

#endif  // RVM_KERNELS_TE_OPERATIONS_H_
