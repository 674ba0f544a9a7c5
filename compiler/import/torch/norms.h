// Norms, which distances and losses are made of.
#ifndef RVM_COMPILER_IMPORT_TORCH_NORMS_H_
#define RVM_COMPILER_IMPORT_TORCH_NORMS_H_

#include <cstdint>

#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {

// Returns the vector norm of a node with `self`, `ord`, `dim` and `keepdim`.
Operands VectorNorm(NodeContext& c);
// Returns the p-norm along `axis`; p may be 0 or infinite.
Operand PNormAlong(NodeContext& c, Operand x, double p, int64_t axis, bool keepdims);

}  // namespace rvm::torch::convert

#endif  // RVM_COMPILER_IMPORT_TORCH_NORMS_H_
