// Gives tuples as results field by field.
#ifndef RVM_COMPILER_PASSES_RETURN_FIELDS_H_
#define RVM_COMPILER_PASSES_RETURN_FIELDS_H_

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module. Marks the functions whose result, a small tuple, no cell needs to hold
// (GlobalFunction::returns_fields): all that they give is a tuple written there, a variable, or the result of a tail
// call of another such function, and somebody takes it apart. Behind a call that is no such tail call, all fields get
// names, and a tuple of these stands for the result.
ir::Module ReturnFields(const ir::Module& module, const std::vector<std::string>& entries);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_RETURN_FIELDS_H_
