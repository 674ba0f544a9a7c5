// Lowers a fused primitive function to a te computation and a kernel descriptor.
//
// A primitive function (`Primitive=1`) has tensor parameters and a body of lets of
// operator calls whose value is a tensor or a tuple of tensors. Each non-constant dim of
// a parameter becomes a symbol of the kernel; the operators' own type relations then
// give the dims of the results as expressions over the symbols, and the equalities that
// must be checked when the kernel is called. There are no separate shape functions. A dim that
// is the value of an element of a parameter (TypeContext::ValueDim) is a symbol too.
#ifndef RVM_COMPILER_LOWERING_FUSED_FUNCTION_H_
#define RVM_COMPILER_LOWERING_FUSED_FUNCTION_H_

#include "absl/status/statusor.h"
#include "compiler/ir/expr.h"
#include "kernels/te/tensor.h"
#include "serialization/executable.h"

namespace rvm::lowering {

struct LoweredKernel {
  te::Computation computation;
  KernelDesc desc;        // without `symbol` and `workspace`, which code generation sets
  bool is_static = true;  // no symbols
};

// REQUIRES: `function` is typed and primitive as described above.
absl::StatusOr<LoweredKernel> LowerPrimitive(ir::Arena& arena, const ir::Function& function);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_FUSED_FUNCTION_H_
