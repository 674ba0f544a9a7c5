// Whether each type parameter stands where its kind permits.
#ifndef RVM_COMPILER_TYPING_KIND_CHECK_H_
#define RVM_COMPILER_TYPING_KIND_CHECK_H_

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::typing {

// Returns the constraint with all attributes of its relation, which is known; reports those that do not fit.
ir::TypeConstraint CompleteConstraint(ir::TypeConstraint constraint, diagnostics::Diagnostics& diagnostics);

// Checks all types that are written in `module`, and that relations in constraints exist. False
// if errors were reported.
bool CheckKinds(const ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::typing

#endif  // RVM_COMPILER_TYPING_KIND_CHECK_H_
