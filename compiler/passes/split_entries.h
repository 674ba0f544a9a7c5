// Gives entries that are also called from inside a body of their own.
#ifndef RVM_COMPILER_PASSES_SPLIT_ENTRIES_H_
#define RVM_COMPILER_PASSES_SPLIT_ENTRIES_H_

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module. An entry that takes or gives tuples and that the program itself calls, too, becomes a
// call of a new function, which has its body and which the program calls. The entry keeps its parameters and its
// result; passes may change those of the new function. People see both by the entry's name.
ir::Module SplitEntries(const ir::Module& module, const std::vector<std::string>& entries);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPLIT_ENTRIES_H_
