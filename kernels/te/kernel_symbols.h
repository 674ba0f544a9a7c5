// The symbols of a kernel: the order in which it takes the values of its dims.
#ifndef RVM_KERNELS_TE_KERNEL_SYMBOLS_H_
#define RVM_KERNELS_TE_KERNEL_SYMBOLS_H_

#include <vector>

#include "kernels/te/tensor.h"

namespace rvm::te {

// Returns the variables in the dims of the inputs, in order of appearance, then those that are values of elements.
std::vector<Dim> KernelSymbols(const Computation& computation);

// Appends the variables of `dim` that `symbols` has not, from left to right.
void AddVariables(const Dim& dim, std::vector<Dim>& symbols);

}  // namespace rvm::te

#endif  // RVM_KERNELS_TE_KERNEL_SYMBOLS_H_
