// The scope of graph bindings.
//
// `%0 = e` names a node of a graph. Its scope is the whole function: the predecessor prints a node at its first use,
// which may be inside a branch, and refers to it from other branches. Our programs are trees with lets, so such a
// binding is moved to the innermost block that contains all its uses, before the first of them. It is evaluated once
// there, and not on paths that do not reach that block.
#ifndef RVM_COMPILER_TEXT_GRAPH_BINDINGS_H_
#define RVM_COMPILER_TEXT_GRAPH_BINDINGS_H_

#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/arena.h"
#include "compiler/ir/expr.h"

namespace rvm::text {

// Returns whether `%name` is a graph variable: its name is a number.
bool IsGraphVar(const ir::Var* var);

// Moves the lets of `vars` (graph variables that `function` uses outside their scope) and of the graph variables on
// which they depend. Reports an error and returns false if a binding uses variables that are not in scope at its new
// place.
bool PlaceGraphBindings(ir::Function& function, const std::vector<ir::Var*>& vars,
                        diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_GRAPH_BINDINGS_H_
