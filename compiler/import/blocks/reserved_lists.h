// Lists of TensorFlow that are reserved: of a length that is known when they are made, and of elements of one shape,
// which nobody has said yet. Such a list is its length and a zero, as a tuple. What writes an element to it makes it a
// tensor: its elements along a new first axis.
#ifndef RVM_COMPILER_IMPORT_BLOCKS_RESERVED_LISTS_H_
#define RVM_COMPILER_IMPORT_BLOCKS_RESERVED_LISTS_H_

#include "absl/functional/function_ref.h"
#include "compiler/import/steps.h"

namespace rvm::importing {

bool IsReserved(Operand list);
bool IsTensor(Operand list);
// Returns the zeros that a reserved list of elements of that shape holds.
Operand Zeros(Steps& c, Operand reserved, Dims element);

// Returns the results of a loop that computes the next state while the condition of the state holds. Reserved lists of
// the state become tensors before it.
Operands RunLoop(Steps& c, Operands state, absl::FunctionRef<Operand(const Operands& state)> goes_on,
                 absl::FunctionRef<Operands(const Operands& state)> next_state);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_RESERVED_LISTS_H_
