// Programs that show the activations of their sites while they run (calibrate).
#ifndef RVM_COMPILER_QUANTIZE_OBSERVE_H_
#define RVM_COMPILER_QUANTIZE_OBSERVE_H_

#include <vector>

#include "compiler/ir/module.h"
#include "compiler/quantize/sites.h"

namespace rvm::quantize {

// Returns the module with a further parameter of each function, `%observe: fn (int32, Tensor[(?), float32]) -> ()`,
// that calls pass on. It is called with the index of a site and the elements of its activations, before each call of a
// product or a convolution: in each step of a recursion, in each node of a tree, in closures and branches, as often as
// the program gets there. Calls of unknown functions are effects, so that passes keep them and their order.
ir::Module Observe(const ir::Module& module, const std::vector<Site>& sites);

}  // namespace rvm::quantize

#endif  // RVM_COMPILER_QUANTIZE_OBSERVE_H_
