// Calls of the program as the composite that an accelerator sees.
#ifndef RVM_COMPILER_TARGET_COMPOSITE_H_
#define RVM_COMPILER_TARGET_COMPOSITE_H_

#include <optional>
#include <span>

#include "compiler/ir/expr.h"
#include "compiler/target/accelerator.h"
#include "serialization/executable.h"

namespace rvm::target {

// A call and the variable that it is bound to; null for the last one of a block.
struct BoundCall {
  const ir::Var* var = nullptr;
  const ir::Call* call = nullptr;
};

// Returns the composite of typed calls in A-normal form, which fit `pattern` (FitsPattern). Variables that none of them
// gives, and constants that are no scalars, are its arguments, in the order of their use; `params` are the first.
// nullopt if a call takes or gives anything but tensors of known rank.
std::optional<Composite> MakeComposite(const Pattern& pattern, std::span<const BoundCall> calls,
                                       std::span<ir::Var* const> params = {});

// Returns true if the operator of the call is one of the step's.
bool FitsStep(const PatternStep& step, const BoundCall& call);

// Returns true if the operators of the calls are all steps of the pattern but optional ones, in order.
bool FitsPattern(const Pattern& pattern, std::span<const BoundCall> calls);

// Returns the composite of a kernel that is a primitive function; nullopt if its calls fit no pattern.
std::optional<Composite> CompositeOfKernel(std::span<const Pattern> patterns, const ir::Function& primitive,
                                           const KernelDesc& kernel);

}  // namespace rvm::target

#endif  // RVM_COMPILER_TARGET_COMPOSITE_H_
