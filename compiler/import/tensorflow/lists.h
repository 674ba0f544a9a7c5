// TensorLists and TensorArrays, and the loops that fill them.
//
// A list whose length is known when it is made is a tensor: its elements along a new first axis, which a loop updates
// in place. While nobody has said what shape the elements have, it is reserved: its length and a zero, as a tuple. A
// list that grows is a List of Relay, whose elements have a first axis of extent 1 more, along which they are joined.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_LISTS_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_LISTS_H_

#include "absl/functional/function_ref.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {

// Returns the results of a loop that computes the next state while the condition of the state holds. Reserved lists of
// the state become tensors before it.
Operands RunLoop(NodeContext& c, Operands state, absl::FunctionRef<Operand(const Operands& state)> goes_on,
                 absl::FunctionRef<Operands(const Operands& state)> next_state);

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_LISTS_H_
