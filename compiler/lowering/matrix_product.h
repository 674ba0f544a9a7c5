// Finds launches of a kernel that a GEMM library may compute in place of its function.
#ifndef RVM_COMPILER_LOWERING_MATRIX_PRODUCT_H_
#define RVM_COMPILER_LOWERING_MATRIX_PRODUCT_H_

#include <vector>

#include "kernels/schedule/schedule.h"
#include "serialization/executable.h"

namespace rvm::lowering {

// Adds nests that finish products in place: of products that a library computes faster, and whose results go through
// more than it can do, as a GELU. Their own nests compute all of it, and run where there is no library.
void AddTails(schedule::Schedule& schedule);

// Returns the nests of a schedule for a GPU that are GEMMs, batched or not, of matrices as they lie in memory, whose
// results are at most scaled, and added to a matrix and to a row of biases. Products of float16 and bfloat16 are
// rounded once, where the program may round after each operator.
// They have a tail where AddTails gave them one.
std::vector<DeviceProduct> FindProducts(const schedule::Schedule& schedule);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_MATRIX_PRODUCT_H_
