// Sorts, and the first elements of an order.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_ORDER_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_ORDER_H_

#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {

// Returns the first elements along an axis in the order of a comparator, and their indices: what `jax.lax.approx_max_k`
// and `approx_min_k` call, here without an approximation.
Operands ApproxTopK(NodeContext& c);

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_ORDER_H_
