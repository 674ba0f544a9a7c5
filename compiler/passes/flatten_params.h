// Passes tuples field by field.
#ifndef RVM_COMPILER_PASSES_FLATTEN_PARAMS_H_
#define RVM_COMPILER_PASSES_FLATTEN_PARAMS_H_

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module. A parameter that is a tuple and is only taken apart, passed on to such a parameter, or
// given as the result of a loop becomes one parameter per field; nested tuples too, as long as the parameters are few.
// So the state of a loop is in registers and its next round makes no tuple. Entries keep their parameters.
//
// Tuples whose tensors have extents with names stay whole: as parameters these would be checked on every call, which
// fields of tuples are not.
ir::Module FlattenParams(const ir::Module& module, const std::vector<std::string>& entries);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_FLATTEN_PARAMS_H_
