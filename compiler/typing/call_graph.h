// The order in which global functions are typed.
#ifndef RVM_COMPILER_TYPING_CALL_GRAPH_H_
#define RVM_COMPILER_TYPING_CALL_GRAPH_H_

#include <cstddef>
#include <vector>

#include "compiler/ir/module.h"

namespace rvm::typing {

// Indices of the functions of `module`: each after those it refers to, except within a cycle.
// Among functions that are free to go first, source order.
std::vector<size_t> CalleesFirst(const ir::Module& module);

}  // namespace rvm::typing

#endif  // RVM_COMPILER_TYPING_CALL_GRAPH_H_
