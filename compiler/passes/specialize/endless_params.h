// Finds type parameters with infinitely many instances.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_ENDLESS_PARAMS_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_ENDLESS_PARAMS_H_

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

using TypeParamSet = absl::flat_hash_set<const ir::TypeParam*>;

// Calls `visit` for each parameter of kind Type that stands in `type`, at least once; `is_inside` if it is only a part
// of the type. Arguments for the parameters in `skip` are passed over.
void ForEachTypeParam(const ir::Type* type, const TypeParamSet& skip,
                      absl::FunctionRef<void(const ir::TypeParam*, bool is_inside)> visit);

// Returns the parameters of kind Type, of types and functions, that come back to themselves larger: `A` of a type with
// a field `T[(A, A)]`, and of a function that calls itself, perhaps through others, at `(A, A)`. Takes a typed module.
TypeParamSet FindEndlessParams(const ir::Module& module);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_ENDLESS_PARAMS_H_
