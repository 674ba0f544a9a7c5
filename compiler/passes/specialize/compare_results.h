// Whether an operator gives what a polymorphic function takes its result for, in one instance, for Specialize.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_COMPARE_RESULTS_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_COMPARE_RESULTS_H_

#include "base/dim.h"
#include "compiler/ir/type.h"

namespace rvm::passes {

// Is a result of type `own` what the program takes it for? Extents may stay unknown until it runs.
DimEquality CompareResults(const ir::Type* own, const ir::Type* claimed);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_COMPARE_RESULTS_H_
