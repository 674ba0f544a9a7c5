// Fusion: operator calls become calls of kernels.
#ifndef RVM_COMPILER_PASSES_FUSE_OPS_H_
#define RVM_COMPILER_PASSES_FUSE_OPS_H_

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a module in A-normal form. Gives the same, where groups of operator calls of one block
// have become calls of primitive function literals, each compiled to one kernel
// (lowering/fused_function.h):
//
//   let %t = fn (%x: ..., %w: ..., Primitive=1) { let %a = ...; let %b = ...; (%a, %b) }(%x, %w);
//   let %a = %t.0;
//   let %b = %t.1;
//
// A group with several results is followed by one projection for each, and its tuple has no
// other use. Calls that need no kernel (scalar instructions, views) stay as they are.
//
// -O0: each operator is a group. -O1: elementwise, broadcast and injective operators join
// their consumers, and follow one reduction or contraction. -O2: all that data connects, such as
// a whole recurrent cell. No operator is computed twice.
ir::Module FuseOps(const ir::Module& module, int opt_level);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_FUSE_OPS_H_
