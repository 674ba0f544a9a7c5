// Makes a typed module monomorphic.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a typed module. Gives one with the functions that the entries reach, one copy for each
// distinct list of type arguments, named after them (`map[int32, bool]`). No type parameters
// remain but those of kind ShapeVar, which stand for dims known at run time: a function called
// with non-constant dims has one instance for all of them. Operators, constructors and global
// functions used as values become function literals, so they are only ever called.
//
// Attributes of functions are dropped: `Primitive=1` of a program says how the compiler that wrote it fused operators,
// of ours that the body is a kernel.
//
// A polymorphic function as a value becomes the tuple of its instances (polymorphic_values.h). Type parameters that
// come back to themselves larger are one type (uniform_types.h).
//
// Operators on shapes and dtypes that were type parameters are checked for each instance, as type inference could
// only say what holds for most (ops/generic_type.h).
//
// kInvalidArgument if an entry does not exist, kUnimplemented if it has other type parameters. What else is
// refused is said by diagnostics, among it instances without end.
absl::StatusOr<ir::Module> Specialize(const ir::Module& module, const std::vector<std::string>& entries,
                                      diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_H_
