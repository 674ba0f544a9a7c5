// Function bodies for a place where the function is called.
#ifndef RVM_COMPILER_PASSES_INSTANTIATE_H_
#define RVM_COMPILER_PASSES_INSTANTIATE_H_

#include <vector>

#include "compiler/ir/module.h"

namespace rvm::passes {

// `function` for a call at `call` with arguments of the types `args`: with their extents in place of its shape
// variables, and with variables of its own, so that its body may stand in the caller. Null if the arguments do not
// determine an extent, or contradict each other: then the callee has something to check.
//
// `is_only_use`: nothing else uses the nodes of `function`; it is returned itself where it has no shape variables.
// Code of the Prelude gets the position of the call, which the author of the program can see.
const ir::Function* Instantiate(ir::Arena& arena, const ir::Function& function,
                                const std::vector<const ir::Type*>& args, bool is_only_use, ir::Span call);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_INSTANTIATE_H_
